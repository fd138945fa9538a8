"""The second part: puts partial aggregates together and closes windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

import pandas as pd

from millrace.engines.spark.exact.marking import ABOUT, LETTER, MARK, PARTIAL, RESULT, Shape, whole
from millrace.engines.spark.exact.partials import (
    KEYS,
    Layout,
    finished,
    merged,
    regrouped,
    restored,
    stored,
)
from millrace.engines.spark.exact.spans import sessions

#: Makes results of a table of windows that closed.
Finish = Callable[[Any], Any]
_SESSIONS = 0
#: Under these numbers stand, among the sources: when the first batch was, when the last one was,
#: and up to where windows were closed.
_BEGAN, _BEFORE, _CLOSED = -1, -2, -3


class Windows:
    """The open windows of a bucket, by where they begin, and how far each source is.

    Open sessions are kept together, under one number, for a record may join them.
    """

    def __init__(
        self,
        shape: Shape,
        opened: MutableMapping[int, bytes],
        marks: MutableMapping[int, int],
        *,
        updates: bool,
        seen: MutableMapping[int, int] | None = None,
        now: int = 0,
        finish: Finish | None = None,
    ) -> None:
        """Take what is open.

        `seen` is when each source had records, `now` the batch's time; `finish` makes results of
        windows that closed, if not their aggregates are.
        """
        self._shape = shape
        self._open = opened
        self._marks = marks
        self._updates = updates
        self._seen = {} if seen is None else seen
        self._now = now
        self._finish = finish

    def rows(self, batch: Any) -> Iterator[Any]:
        """Give the windows that a batch closes, or changes where updates are wanted."""
        kinds = batch["kind"].to_numpy()
        letters = batch[kinds == LETTER]
        if len(letters):
            yield whole(letters, after(self._shape))
        partials, late = self._still_open(batch[kinds == PARTIAL])
        late += int(batch["late"].to_numpy()[kinds == MARK].sum())
        if late:
            yield whole(pd.DataFrame({"kind": [MARK], "late": [late]}), after(self._shape))
        mark = self._marked(batch[kinds == MARK])
        if self._updates:
            if len(partials):
                yield self._results(self._added(partials))
            self._over(mark)
            return
        table = self._taken(partials, mark)
        if table is not None and len(table):
            yield self._results(table)

    def _still_open(self, partials: Any) -> tuple[Any, int]:
        """What belongs to windows that are not closed, and how many records come too late.

        Where time closes windows a record may be seen after that: a partition was silent for too
        long, or a transaction of its writer was open. No window comes twice.
        """
        columns = list(self._shape.layout.columns())
        closed = self._seen.get(_CLOSED) if self._shape.ticks else None
        if closed is None or not len(partials):
            return partials[columns], 0
        there = partials["end"].to_numpy() > closed
        return partials[there][columns], int(partials["late"].to_numpy()[~there].sum())

    def tick(self) -> Iterator[Any]:
        """Give the windows that close as time goes by."""
        table = self._over(self._marked(pd.DataFrame({"source": [], "mark": []})))
        if table is not None and not self._updates:
            yield self._results(table)

    def _taken(self, partials: Any, mark: int | None) -> Any:
        """Add to open windows; return those that are over, if there are any.

        What is over at once is never written down; all of it is put together in one go.
        """
        if self._shape.gap is not None:
            if len(partials):
                self._joined(partials)
            return self._over(mark)
        before = self._over(mark)
        if mark is None or not len(partials):
            if len(partials):
                self._added(partials)
            return before
        over = partials["end"].to_numpy() <= mark
        if not over.all():
            self._added(partials[~over])
        tables = [partials[over], *([] if before is None else [before])]
        return merged(self._shape.layout, tables) if over.any() else before

    def _marked(self, rows: Any) -> int | None:
        """Take the news of the sources; return how far all of them are, if all are known."""
        shape = self._shape
        news = {int(s): int(m) for s, m in zip(rows["source"], rows["mark"], strict=True)}
        if shape.wallclock:
            return self._clock(news)
        for source, mark in news.items():
            self._marks[source] = mark
        known = dict(self._marks)
        waited = self._awaited(news)
        if any(source not in known for source in waited) or not known:
            return None
        far = min((known[source] for source in waited), default=max(known.values()))
        return int(far) - shape.lateness

    def _clock(self, news: Mapping[int, int]) -> int | None:
        """How far windows by the clock are, if that is known.

        All that was there at the time of the last batch was read in this one, or before; of what
        came between the two a source without news may hold some that is not seen yet.
        """
        before = self._seen.get(_BEFORE)
        self._seen[_BEFORE] = self._now
        if before is None:
            return None
        return min(news.get(source, before) for source in self._shape.sources)

    def _awaited(self, news: Mapping[int, int]) -> list[int]:
        """The sources that hold windows back: all, but those that have been silent for long."""
        shape = self._shape
        if shape.idle is None:
            return list(shape.sources)
        for source in news:
            self._seen[source] = self._now
        self._seen[_BEGAN] = began = self._seen.get(_BEGAN, self._now)
        seen = dict(self._seen)
        return [s for s in shape.sources if self._now - seen.get(s, began) <= shape.idle]

    def _added(self, partials: Any) -> Any:
        """Add to the open windows; return those that changed."""
        layout = self._shape.layout
        if self._shape.gap is not None:
            return self._joined(partials)
        changed = []
        for begin, table in partials.groupby("begin", sort=False):
            known = self._open.get(int(begin))
            tables = [table] if known is None else [restored(known), table]
            window = merged(layout, tables)
            self._open[int(begin)] = stored(window)
            changed.append(window[window["key"].isin(table["key"])] if self._updates else table)
        return pd.concat(changed, ignore_index=True)

    def _joined(self, partials: Any) -> Any:
        """Add to the open sessions: those that touch become one; return those that changed."""
        known = self._open.get(_SESSIONS)
        tables = [] if known is None else [restored(known).assign(fresh=False)]
        every = pd.concat([*tables, partials.assign(fresh=True)], ignore_index=True)
        every = every.sort_values(["key", "begin"], ignore_index=True)
        codes, _ = pd.factorize(every["key"].to_numpy(), use_na_sentinel=False)
        numbers = sessions(codes, every["begin"].to_numpy(), every["end"].to_numpy())
        spans = every.groupby(numbers).agg({"begin": "min", "end": "max", "key": "first"})
        joined = regrouped(self._shape.layout, every, numbers, spans[KEYS])
        self._open[_SESSIONS] = stored(joined)
        fresh = every["fresh"].groupby(numbers).any().to_numpy()
        return joined[fresh]

    def _over(self, mark: int | None) -> Any:
        """Take out the windows that end before all sources are, if there are any."""
        if mark is None:
            return None
        if self._shape.ticks:
            mark = max(mark, self._seen.get(_CLOSED, mark))
            self._seen[_CLOSED] = mark
        if self._shape.gap is not None:
            return self._sessions_over(mark)
        begins = [begin for begin in self._open if begin + self._shape.length <= mark]
        tables = [restored(self._open.pop(begin)) for begin in sorted(begins)]
        return pd.concat(tables, ignore_index=True) if tables else None

    def _sessions_over(self, mark: int) -> Any:
        known = self._open.get(_SESSIONS)
        if known is None:
            return None
        table = restored(known)
        over = table["end"].to_numpy() <= mark
        if not over.any():
            return None
        self._open[_SESSIONS] = stored(table[~over])
        return table[over]

    def _results(self, table: Any) -> Any:
        return whole(results_of(self._shape.layout, table, self._finish), after(self._shape))


def results_of(layout: Layout, table: Any, finish: Finish | None) -> Any:
    """Return the rows of windows that closed."""
    return finished(layout, table).assign(kind=RESULT) if finish is None else finish(table)


def after(shape: Shape) -> dict[str, str]:
    """Return the columns of the rows after it."""
    span = {"begin": "long", "end": "long", "key": "string"}
    own = {"kind": "int", "fate": "int", "late": "long"}
    return {**own, **span, **shape.layout.results(), **ABOUT}
