"""A pipeline file with all it includes, as one document: sections, constants, layers.

Nothing is interpreted here but the skeleton: which file says what, and in which order defaults
apply. Names may still hold expressions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Final

from millrace.errors import Diagnostic, Location, Problems
from millrace.model.types import NAME, NAME_EXPECTED
from millrace.spec.node import Node, plain
from millrace.spec.source import Source, Sources

SECTIONS: Final = ("sites", "pilots", "streams", "jobs")
#: Keys of a pipeline file, with what they are for (the schema and the reference show it).
TOP_KEYS: Final[dict[str, str]] = {
    "pipeline": "the pipeline's name",
    "description": "a note for people",
    "include": "files that belong to it, relative to this one, inside the project's root",
    "constants": "names for values, used in expressions",
    "profile": "the profile that is taken unless --profile names another",
    "profiles": "sets of includes, constants and defaults, one of which is taken",
    "defaults": "values that all things of a section take unless they say otherwise",
    "groups": "values that the streams and jobs of a group take, nearer than defaults",
    "sites": "places where jobs run",
    "pilots": "allocations on resources",
    "streams": "named flows of records",
    "jobs": "code with inputs and outputs",
}
PROFILE_KEYS: Final = ("include", "constants", "defaults")
GROUP_KEYS: Final = ("streams", "jobs")
#: Files that include each other, one below the other.
MOST_INCLUDES_DEEP: Final = 50


@dataclass(frozen=True, slots=True)
class Layer:
    """A map that may answer for a field, and what to call it when explaining."""

    node: Node
    origin: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A named thing as it was written: its name may hold expressions."""

    name: str
    node: Node
    at: Location


@dataclass(slots=True)
class Document:
    """All files of a pipeline, merged but not interpreted."""

    name: Node | None = None
    description: Node | None = None
    constants: dict[str, Node] = field(default_factory=dict)
    defaults: dict[str, list[Layer]] = field(default_factory=lambda: {s: [] for s in SECTIONS})
    groups: dict[str, dict[str, list[Layer]]] = field(default_factory=dict)
    entries: dict[str, dict[str, Entry]] = field(
        default_factory=lambda: {section: {} for section in SECTIONS}
    )


Parse = Callable[[Source, Problems], Node | None]


@dataclass(slots=True)
class Assembler:
    """Follows includes and profiles, and puts what they say into one document."""

    sources: Sources
    problems: Problems
    parse: Parse
    profile: str | None = None
    document: Document = field(default_factory=Document)
    _done: set[Path] = field(default_factory=set)
    _places: dict[tuple[str, str], Location] = field(default_factory=dict)

    def assemble(self, source: Source, node: Node) -> Document:
        """Merge a main file and all that it includes."""
        top = self._map(node, "a pipeline file", tuple(TOP_KEYS))
        self.document.name = top.get("pipeline")
        self.document.description = top.get("description")
        chosen = self._profile(top, node.at)
        self._content(chosen, "profile")  # nearest: it may say a constant again
        if source.path is not None:
            self._done.add(source.path.resolve())
        self._content(top, "pipeline")
        self._includes(chosen, source, ())
        self._includes(top, source, ())
        return self.document

    def _profile(self, top: dict[str, Node], top_at: Location) -> dict[str, Node]:
        profiles = self._map(top["profiles"], "profiles") if "profiles" in top else {}
        default = top.get("profile")
        wanted = self.profile or (plain(default) if default is not None else None)
        if wanted is None:
            return {}
        if isinstance(wanted, str) and wanted in profiles:
            return self._map(profiles[wanted], f"profile {wanted}", PROFILE_KEYS)
        place = default.at if default is not None and self.profile is None else top_at
        known = ", ".join(profiles) or "none"
        self.problems.error(
            "unknown-profile",
            f"there is no profile {wanted!r}",
            place,
            nearest=self.problems.nearest(str(wanted), profiles),
            hint=f"the file's profiles: {known}",
        )
        return {}

    def _content(self, top: dict[str, Node], origin: str) -> None:
        for key, node in self._map(top.get("constants"), "constants").items():
            if origin != "profile" and ("profile", key) in self._places:
                continue
            self._once("constants", key, top["constants"].key_at(key), origin)
            self.document.constants[key] = node
        defaults = self._map(top.get("defaults"), "defaults", SECTIONS)
        for section, node in defaults.items():
            if self._map(node, f"defaults of {section}"):
                self.document.defaults[section].append(Layer(node, "defaults"))
        groups = top.get("groups")
        for name, node in self._map(groups, "groups").items():
            at = groups.key_at(name) if groups else node.at
            self._once("groups", name, at, origin)
            if not NAME.fullmatch(name):
                self.problems.error(
                    "bad-name",
                    f"{name[:200]!r} can't be a name",
                    at,
                    expected=NAME_EXPECTED,
                    hint="rename it",
                )
            layers = self.document.groups.setdefault(name, {key: [] for key in GROUP_KEYS})
            for section, part in self._map(node, f"group {name}", GROUP_KEYS).items():
                if self._map(part, f"{section} of group {name}"):
                    layers[section].append(Layer(part, f"group {name}"))
        for section in SECTIONS:
            self._section(section, top.get(section), origin)

    def _section(self, section: str, node: Node | None, origin: str) -> None:
        for name, item in self._map(node, section).items():
            at = node.key_at(name) if node is not None else item.at
            if self._once(section, name, at, origin):
                self.document.entries[section][name] = Entry(name, item, at)

    def _once(self, section: str, name: str, at: Location, origin: str) -> bool:
        """Tell when two files say the same thing."""
        if origin == "profile":
            self._places[origin, name] = at
            return True
        first = self._places.setdefault((section, name), at)
        if first == at:
            return True
        self.problems.add(
            Diagnostic(
                "declared-twice",
                f"{name!r} of {section} is declared twice",
                at,
                hint="remove one of them, or rename it",
                related=((first, "the first one"),),
            )
        )
        return False

    def _includes(self, top: dict[str, Node], source: Source, chain: tuple[Path, ...]) -> None:
        listed = top.get("include")
        if listed is None:
            return
        nodes = listed.value if isinstance(listed.value, list) else [listed]
        for node in nodes:
            if isinstance(node.value, str):
                self._include(node, node.value, source, chain)
            else:
                self.problems.error(
                    "wrong-type",
                    "include takes file names",
                    node.at,
                    found=node.describe(),
                    expected="a path such as sites.yaml",
                    hint="name one file, or a list of them",
                )

    def _include(self, node: Node, name: str, source: Source, chain: tuple[Path, ...]) -> None:
        path = self.sources.included(name, source, node.at)
        if path is None:
            return
        here = (*chain, source.path.resolve()) if source.path else chain
        if path in here:
            self.problems.error(
                "include-cycle",
                f"{name} includes itself, directly or by others",
                node.at,
                found=" -> ".join(part.name for part in (*here[here.index(path) :], path)),
                hint="remove one of these includes",
            )
            return
        if path in self._done:
            return
        if len(here) > MOST_INCLUDES_DEEP:
            self.problems.error(
                "too-deep",
                f"files include each other more than {MOST_INCLUDES_DEEP} deep",
                node.at,
                hint="include them all in the pipeline's own file",
            )
            return
        self._done.add(path)
        shown = str(PurePath(source.name).parent / name)
        included = self.sources.read(path, shown, node.at)
        tree = self.parse(included, self.problems) if included is not None else None
        if included is None or tree is None:
            return
        top = self._map(
            tree,
            f"the included file {shown}",
            tuple(key for key in TOP_KEYS if key not in ("pipeline", "profile", "profiles")),
        )
        self._content(top, "include")
        self._includes(top, included, here)

    def _map(
        self, node: Node | None, what: str, keys: tuple[str, ...] | None = None
    ) -> dict[str, Node]:
        """The map that a node must be, with only these keys; told where it is not."""
        if node is None or node.value is None:
            return {}
        if not isinstance(node.value, dict):
            self.problems.error(
                "wrong-type",
                f"{what} must be a map",
                node.at,
                found=node.describe(),
                expected="a map (key: value)",
                hint="write `key: value` lines below it",
            )
            return {}
        known: dict[str, Node] = {}
        for key, value in node.value.items():
            if keys is None or key in keys:
                known[key] = value
                continue
            if self.problems.full:
                self.problems.left_out += 1
                continue
            near = self.problems.nearest(key, keys)
            self.problems.error(
                "unknown-key",
                f"{what} has no key {key!r}",
                node.key_at(key),
                nearest=near,
                expected=", ".join(keys),
                hint=f"did you mean {near!r}?" if near else "remove it",
            )
        return known
