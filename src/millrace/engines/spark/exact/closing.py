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
#: Under this number stands when the first batch was, among the sources.
_BEGAN = -1


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
        partials = batch[kinds == PARTIAL][list(self._shape.layout.columns())]
        changed = self._added(partials) if len(partials) else None
        if self._updates and changed is not None:
            yield self._results(changed)
        mark = self._marked(batch[kinds == MARK])
        if mark is not None:
            yield from self._closed(mark)

    def tick(self) -> Iterator[Any]:
        """Give the windows that close as time goes by."""
        mark = self._marked(pd.DataFrame({"source": [], "mark": []}))
        if mark is not None:
            yield from self._closed(mark)

    def _marked(self, rows: Any) -> int | None:
        """Take the news of the sources; return how far all of them are, if all are known."""
        shape = self._shape
        news = {int(s): int(m) for s, m in zip(rows["source"], rows["mark"], strict=True)}
        if shape.wallclock:  # a source without news had no record when the batch began
            return min(news.get(source, self._now) for source in shape.sources)
        for source, mark in news.items():
            self._marks[source] = mark
        known = dict(self._marks)
        waited = self._awaited(news)
        if any(source not in known for source in waited) or not known:
            return None
        far = min((known[source] for source in waited), default=max(known.values()))
        return int(far) - shape.lateness

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
        """Add to the open sessions: those that touch become one."""
        known = self._open.get(_SESSIONS)
        tables = [partials] if known is None else [restored(known), partials]
        every = pd.concat(tables, ignore_index=True)
        every = every.sort_values(["key", "begin"], ignore_index=True)
        codes, _ = pd.factorize(every["key"].to_numpy(), use_na_sentinel=False)
        numbers = sessions(codes, every["begin"].to_numpy(), every["end"].to_numpy())
        spans = every.groupby(numbers).agg({"begin": "min", "end": "max", "key": "first"})
        joined = regrouped(self._shape.layout, every, numbers, spans[KEYS])
        self._open[_SESSIONS] = stored(joined)
        return joined

    def _closed(self, mark: int) -> Iterator[Any]:
        """Give the windows that end before all sources are, and forget them."""
        if self._shape.gap is not None:
            known = self._open.get(_SESSIONS)
            if known is None:
                return
            table = restored(known)
            over = table["end"].to_numpy() <= mark
            if over.any():
                self._open[_SESSIONS] = stored(table[~over])
                if not self._updates:
                    yield self._results(table[over])
            return
        for begin in sorted(self._open):
            if begin + self._shape.length <= mark:
                table = restored(self._open.pop(begin))
                if not self._updates:
                    yield self._results(table)

    def _results(self, table: Any) -> Any:
        return whole(results_of(self._shape.layout, table, self._finish), after(self._shape))


def results_of(layout: Layout, table: Any, finish: Finish | None) -> Any:
    """Return the rows of windows that closed."""
    return finished(layout, table).assign(kind=RESULT) if finish is None else finish(table)


def after(shape: Shape) -> dict[str, str]:
    """Return the columns of the rows after it."""
    span = {"begin": "long", "end": "long", "key": "string"}
    return {"kind": "int", "fate": "int", **span, **shape.layout.results(), **ABOUT}
