"""What a store does, whatever it is."""

# ruff: noqa: S101 - these are tests, though they are shipped

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from millrace.ports import Change, Conflict, Entry, EntryKind, Store

ONE, TWO = {"n": 1, "text": "ö", "deep": {"list": [1, None, True]}}, {"n": 2}


class StoreConformance:
    """Tests of the port `Store`; a subclass gives the fixture `store`, which is empty."""

    def test_what_is_committed_is_there(self, store: Store) -> None:
        """Documents by kind and name; one that is put again is replaced."""
        store.commit(Change({("job", "a"): ONE, ("job", "b"): TWO, ("site", "a"): TWO}))
        store.commit(Change({("job", "b"): ONE}, frozenset({("site", "a"), ("site", "z")})))
        assert store.load("job") == {"a": ONE, "b": ONE}
        assert store.load("site") == {}

    def test_a_change_is_made_wholly_or_not_at_all(self, store: Store) -> None:
        """What is not as expected leaves everything as it was, the journal included."""
        store.commit(Change({("job", "a"): ONE}, entries=(Entry(EntryKind.INTENT, "first"),)))
        for expects in ({("job", "a"): TWO}, {("job", "b"): ONE}, {("job", "a"): None}):
            entry = Entry(EntryKind.INTENT, "never")
            change = Change({("job", "b"): TWO}, frozenset({("job", "a")}), (entry,), expects)
            with pytest.raises(Conflict) as caught:
                store.commit(change)
            assert caught.value.key in expects
        assert store.load("job") == {"a": ONE}
        assert [entry.about for entry in store.entries(0, 10)] == ["first"]

    def test_of_many_who_expect_the_same_one_wins(self, store: Store) -> None:
        """However many threads ask at once."""

        def take(number: int) -> bool:
            try:
                store.commit(
                    Change({("lease", "x"): {"by": number}}, expects={("lease", "x"): None})
                )
            except Conflict:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(take, range(20)))
        assert sum(won) == 1
        assert store.load("lease") == {"x": {"by": won.index(True)}}

    def test_the_journal_is_numbered_in_its_order(self, store: Store) -> None:
        """Numbers are never given twice, those of forgotten entries neither."""
        for number in range(5):
            last = store.commit(
                Change(entries=(Entry(EntryKind.EVENT, str(number), {"n": number}),))
            )
        found = store.entries(0, 3)
        assert [entry.detail["n"] for entry in found] == [0, 1, 2]
        assert [entry.about for entry in store.entries(found[-1].number, 10)] == ["3", "4"]
        assert [entry.number for entry in store.entries(last - 1, 10)] == [last]
        store.compact(last + 1)
        assert store.entries(0, 10) == []
        assert store.commit(Change(entries=(Entry(EntryKind.EVENT, "next"),))) == last + 1
        assert store.commit(Change()) == last + 1
