"""Who the participants are, in memory: ids, groups and staff of everyone, made for a million of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from meritfair.core.arrays import AnyArray, BoolArray, IntArray
from meritfair.programme.storage.people import Person
from meritfair.programme.view import Texts


@dataclass(frozen=True, eq=False)
class Labels:
    """A text for each participant, as its place in the list of all texts; the empty text is the first.

    Examples
    --------
    >>> labels = Labels.of(["north", "", "north"])
    >>> labels.used, labels.has("north").tolist()
    (('north',), [True, False, True])
    """

    levels: tuple[str, ...]
    codes: AnyArray

    @classmethod
    def of(cls, texts: Sequence[str]) -> Labels:
        """Return the labels of these texts."""
        return cls(("",), np.zeros(0, np.int32)).changed(np.arange(len(texts)), texts, len(texts))

    def __getitem__(self, number: int) -> str:
        return self.levels[int(self.codes[number])]

    @cached_property
    def used(self) -> tuple[str, ...]:
        """The texts that someone has, in order."""
        return tuple(sorted(self.levels[code] for code in np.unique(self.codes) if self.levels[code]))

    def has(self, text: str) -> BoolArray:
        """Return who has a text."""
        if text not in self.levels:
            return np.zeros(len(self.codes), np.bool_)
        return np.asarray(self.codes == self.levels.index(text))

    def changed(self, numbers: IntArray, texts: Sequence[str], people: int) -> Labels:
        """Return labels of this many people, with these texts for some."""
        places = {level: place for place, level in enumerate(self.levels)}
        codes = np.zeros(people, np.int32)
        codes[: len(self.codes)] = self.codes
        codes[numbers] = [places.setdefault(text, len(places)) for text in texts]
        return Labels(tuple(places), codes)


@dataclass(frozen=True, eq=False)
class Roster:
    """The ids, groups and staff of all participants, by number; empty for those who were erased.

    Examples
    --------
    >>> roster = Roster.of([Person(0, "Ada", b"", "north", ""), Person(2, "Cy", b"", "", "")], 3)
    >>> roster.number_of("Cy"), roster.number_of("Bo"), roster.texts([1, 2])
    (2, None, {2: Texts(id='Cy', group='', staff='')})
    >>> roster.containing("ad").tolist(), roster.by_id.tolist()
    ([True, False, False], [0, 2, 1])
    """

    ids: Any
    groups: Labels
    staff: Labels

    @classmethod
    def of(cls, people: Iterable[Person], count: int) -> Roster:
        """Return the roster of these people, with numbers below `count`."""
        return cls(pa.array([], pa.large_string()), Labels.of([]), Labels.of([])).changed(list(people), count)

    def __len__(self) -> int:
        return len(self.ids)

    def changed(self, people: Sequence[Person], count: int) -> Roster:
        """Return the roster of `count` people, of whom these are new or have changed."""
        known, numbers = len(self), np.array([each.number for each in people], np.int64)
        groups = self.groups.changed(numbers, [each.group for each in people], count)
        staff = self.staff.changed(numbers, [each.staff for each in people], count)
        new = {each.number: each.id for each in people if each.number >= known}
        added = pa.array([new.get(number, "") for number in range(known, count)], pa.large_string())
        return Roster(pa.concat_arrays([self.ids, added]), groups, staff)  # the id of someone who is there stays

    def without(self, numbers: Sequence[int]) -> Roster:
        """Return the roster without who these people are."""
        gone = np.zeros(len(self), np.bool_)
        gone[numbers] = True
        places, nothing = np.flatnonzero(gone), [""] * int(gone.sum())
        ids = pc.if_else(pa.array(gone), pa.scalar("", pa.large_string()), self.ids)
        labels = (each.changed(places, nothing, len(self)) for each in (self.groups, self.staff))
        return Roster(ids, *labels)

    def id(self, number: int) -> str:
        """Return an id; empty if they were erased."""
        return str(self.ids[number].as_py())

    def texts(self, numbers: Sequence[int]) -> dict[int, Texts]:
        """Return who these people are, by number, without those who were erased."""
        ids = self.ids.take(pa.array(np.asarray(numbers, np.int64))).to_pylist()
        rows = zip(np.asarray(numbers).tolist(), ids, strict=True)
        return {number: Texts(id_, self.groups[number], self.staff[number]) for number, id_ in rows if id_}

    def number_of(self, id_: str) -> int | None:
        """Return the number of someone; None if nobody has this id."""
        place = pc.index(self.ids, pa.scalar(id_, pa.large_string())).as_py() if id_ else -1
        return None if place < 0 else int(place)

    def containing(self, text: str) -> BoolArray:
        """Return whose id has this text in it, in upper or lower case."""
        found = pc.match_substring(self._lower, text.lower())
        return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)

    @cached_property
    def erased(self) -> BoolArray:
        """Who was erased."""
        return np.asarray(pc.equal(self.ids, "").to_numpy(zero_copy_only=False), np.bool_)

    @cached_property
    def by_id(self) -> IntArray:
        """The numbers in order of ids; those who were erased are last."""
        order = pc.array_sort_indices(self.ids).to_numpy().astype(np.int64)
        return np.roll(order, -int(self.erased.sum()))

    @cached_property
    def _lower(self) -> Any:
        return pc.utf8_lower(self.ids)
