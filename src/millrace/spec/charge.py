"""What working an expression out may take, known before it is begun.

Work is counted in plain values that are handed over to the library, about a quarter of a
microsecond each. The library copies values wherever lists are put together, made or looked into,
and a macro copies all that it has so far with each turn; so what an expression is given counts as
often as that may happen. The bounds are for the worst that a text of the same signs could mean.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

#: What beginning any expression takes, a new one besides, and each character of a new one.
BEGINNING: Final = 24
NEW: Final = 200
READING: Final = 4
#: A number with a fraction, a text, a key of a map, and a list or map without what it holds.
NUMBER: Final = 3
TEXT: Final = 4
KEY: Final = 8
HOLDING: Final = 16
#: So many characters of a text take as long as a plain value.
CHARACTERS: Final = 64

#: Counted wherever the word stands: a comment can part it from its dot and its bracket.
_MACROS: Final = ("map", "filter", "all", "exists", "exists_one")
_MACRO: Final = re.compile(rf"\b({'|'.join(_MACROS)})\b")
#: A name, or a `range`, that a macro goes over as it is.
_GONE_OVER: Final = re.compile(
    rf"(?<![\w.])(\w+)(?:\s*\([^()]*\))?\s*\.\s*(?:{'|'.join(_MACROS)})\s*\("
)
#: A list or map that is written out: what stands right behind a value looks into it.
_MADE: Final = re.compile(r"(?<![\w)\]])[\[{]|\bin\[")
_WORD: Final = re.compile(r"\b[A-Za-z_]\w*")
_CALLED: Final = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
#: Of all that is called, these make no texts.
_NO_TEXT: Final = frozenset({*_MACROS, "range", "size"})
_PLAIN: Final = frozenset({int, float, bool, type(None)})


@dataclass(frozen=True, slots=True)
class Weight:
    """What a value is for the library: all of it, its longest list, the mean item of a list."""

    whole: int
    longest: int = 1
    mean: int = 1


def weight(value: Any, most: int) -> Weight:
    """Return the weight of plain data; where it is more than `most`, only that it is more."""
    if isinstance(value, str):
        whole = TEXT + len(value) // CHARACTERS
        return Weight(whole, 1, whole)
    if not isinstance(value, list | dict):
        return Weight(NUMBER if isinstance(value, float) else 1)
    if len(value) > most:
        return Weight(len(value), len(value))
    items = value.values() if isinstance(value, dict) else value
    held, longest, mean = 0, len(value), 1
    if isinstance(value, dict):
        held = KEY * len(value) + sum(map(len, value)) // CHARACTERS
    kinds = set(map(type, items))
    if kinds <= _PLAIN:
        held += len(value) * (NUMBER if float in kinds else 1)
    elif kinds == {str}:
        held += TEXT * len(value) + sum(map(len, items)) // CHARACTERS
    else:
        for item in items:
            part = weight(item, most - held)
            held += part.whole
            longest, mean = max(longest, part.longest), max(mean, part.mean)
            if held > most:
                break
    return Weight(HOLDING + held, longest, max(mean, -(-held // max(len(value), 1))))


@dataclass(frozen=True, slots=True)
class Signs:
    """What the text of an expression tells of the work in it."""

    length: int
    #: How often each of its names stands there, and how often not as what a macro goes over.
    uses: Mapping[str, int]
    inside: Mapping[str, int]
    #: How many sums, and how many before the last macro, which may go over what they make.
    sums: int
    early_sums: int
    #: Where lists and maps are made or looked into.
    steps: int
    #: How many macros, and how many of them make a list, of what they go over or of anything.
    macros: int
    filters: int
    maps: int
    #: How often words are said again, the variables of macros among them.
    again: int
    #: How long a list that is written out can be.
    longest: int
    #: What lists, maps and texts that are written out or made by functions weigh together.
    literals: int
    #: How many calls of `range` are not what a macro goes over.
    ranges: int

    @classmethod
    def of(cls, text: str, names: Sequence[str]) -> Signs:
        """Read the signs of a text that uses these names."""
        words = Counter(_WORD.findall(text))
        over = Counter(_GONE_OVER.findall(text))
        macros = list(_MACRO.finditer(text))
        called = Counter(_CALLED.findall(text))
        made = len(_MADE.findall(text))
        texts = sum(map(text.count, "'\"")) // 2
        texts += sum(called[word] for word in called.keys() - _NO_TEXT)
        written = HOLDING * made + TEXT * texts + len(text) // CHARACTERS
        return cls(
            length=len(text),
            uses={name: max(words[name], 1) for name in names},
            inside={name: words[name] - over[name] for name in names},
            sums=text.count("+"),
            early_sums=text.count("+", 0, macros[-1].start()) if macros else 0,
            steps=text.count(".") + text.count("[") + text.count("{"),
            macros=len(macros),
            filters=words["filter"],
            maps=words["map"],
            again=sum(count - 1 for count in (words - called).values()),
            longest=1 + text.count(","),
            literals=written + max(text.count(",") - len(macros), 0),
            ranges=words["range"] - over["range"],
        )


@dataclass(slots=True)
class Charge:
    """What one evaluation may take, with the lists that `range` made so far."""

    signs: Signs
    weights: Mapping[str, Weight]
    #: What all calls of `range` made, and the longest of them.
    ranged: int = 0
    longest_range: int = 0
    #: What was counted for it already.
    paid: int = 0

    def take(self, count: int) -> None:
        """Take note of a list of this many numbers that is made while the expression runs."""
        self.ranged += count
        self.longest_range = max(self.longest_range, count)

    def work(self) -> int:
        """Return the most that it may take; this only grows with more lists."""
        signs = self.signs
        handed = sum(found.whole for found in self.weights.values()) + self.ranged
        copied = self.ranged + sum(
            found.whole * signs.uses[name] for name, found in self.weights.items()
        )
        work = BEGINNING + handed + copied * self._copies // 4
        return work + self._turns() if signs.macros else work

    @property
    def _copies(self) -> int:
        """How many quarters of the work of handing a value over go into copies of it."""
        return 1 + self.signs.steps + 2 * self.signs.sums

    def _turns(self) -> int:
        """What macros may take: turns to the power of their number, and one more for results."""
        signs = self.signs
        longest = max((found.longest for found in self.weights.values()), default=1)
        longest = max(longest, self.longest_range, signs.longest) * (1 + signs.early_sums)
        mean = max((found.mean for found in self.weights.values()), default=1)
        inside = self.longest_range * signs.ranges + sum(
            found.whole * signs.inside[name] for name, found in self.weights.items()
        )
        turns: int = longest**signs.macros
        said = mean * signs.again + inside
        work = turns * (1 + signs.length // 4 + (mean + said) * self._copies // 4)
        item = mean * signs.filters
        if signs.maps:
            item += max(said + inside * signs.sums + signs.literals, 1)
        return work + turns * longest * signs.macros * item // 8
