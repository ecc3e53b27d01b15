"""Plan of RRBA: groups of attributes, views, lots and keep probabilities."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.crypto.randomness import WORDS, Stream
from protocol.messages import PartyId
from protocol.randomizers import KeepUniform
from protocol.randomizers.table import KeepElseTable
from protocol.surveys.survey import Survey
from protocol.variants.rrba.blocks import Cells, least_weight, steepest
from protocol.variants.rrba.views import design_views
from protocol.variants.sums.tallies import Layout, make_layout

Extent: TypeAlias = Literal["one", "view"]
"""Extent of a client's answers: one group of its view, or all of them."""


Mode: TypeAlias = Literal["blocked", "sequential"]
"""Version 2 of the paper, blocks of clients, or version 1, one client after the other."""

Tail: TypeAlias = Literal["keep", "drop"]
"""Treatment of a last block that is not full: it is asked or dropped."""


_FEW = 16
"""The most respondents of a party whose lots are remembered for a while."""


class Plan(msgspec.Struct, frozen=True, kw_only=True, dict=True, eq=False):
    """Plan of an RRBA survey, known to all members.

    Args:
        survey: the survey.
        k: the size of a group.
        p: the keep probability of every group; or
        epsilon: the most that an answer may cost.
        mix: the share of the uniform distribution in the law of fakes.
        extent: the part of its view that a client answers about.
    """

    survey: Survey
    k: int
    p: float | None
    epsilon: float | None
    mix: float
    extent: Extent

    @functools.cached_property
    def views(self) -> tuple[tuple[int, ...], ...]:
        """Every view as the numbers of its groups."""
        number = {group: i for i, group in enumerate(self._group_places)}
        views = _views(len(self.survey.names), self.k)
        return tuple(tuple(number[group] for group in view) for view in views)

    @functools.cached_property
    def group_names(self) -> tuple[tuple[str, ...], ...]:
        """The groups of all views, each once, in order of attributes."""
        names = self.survey.names
        return tuple(tuple(names[place] for place in group) for group in self._group_places)

    @functools.cached_property
    def _group_places(self) -> tuple[tuple[int, ...], ...]:
        views = _views(len(self.survey.names), self.k)
        return tuple(sorted({group for view in views for group in view}))

    @functools.cached_property
    def layout(self) -> Layout:
        """Layout of the groups' cells in one vector."""
        return make_layout(self.survey, self.group_names)

    @functools.cached_property
    def cells(self) -> Cells:
        """The groups' cells in one vector, as estimates use them."""
        return Cells.of(self.layout.groups)

    @functools.cached_property
    def thresholds(self) -> tuple[int, ...]:
        """The keep probability of every group, in 2**-64."""
        sizes = self.layout.groups
        if self.p is not None:
            return tuple(KeepUniform.with_keep(size, p=self.p).threshold for size in sizes)
        return tuple(self._threshold(size) for size in sizes)

    @functools.cached_property
    def least(self) -> tuple[int, ...]:
        """The least weight that a category of every group can have."""
        return tuple(least_weight(size, self.mix) for size in self.layout.groups)

    def _threshold(self, size: int) -> int:
        """The largest threshold at which no table with this mix costs more than epsilon."""
        least = least_weight(size, self.mix)
        # p / (1 - p) = (e**epsilon - 1) T for the least T there can be.
        odds = math.expm1(self.epsilon or 0.0) * (least / WORDS)
        threshold = max(1, min(int(odds / (1 + odds) * WORDS), WORDS - 1))
        weights = steepest(size, self.mix)
        while KeepElseTable(threshold=threshold, weights=weights).epsilon > (self.epsilon or 0.0):
            threshold = threshold - max(1, threshold >> 52)
        return threshold

    def lots(self, session: bytes, party: PartyId, respondents: int) -> NDArray[np.int64]:
        """The views of a party's respondents, (k,), drawn by a public lot."""
        draw = _lots if respondents <= _FEW else _lots.__wrapped__
        return draw(session, party, len(self.views), respondents)

    def chosen(
        self, lots: NDArray[np.int64], stream: Stream
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Respondent and group of each answer, one row per answer."""
        lengths, table = self._lengths[lots], self.view_table
        if self.extent == "one":
            drawn = stream.integers(lengths).astype(np.int64)
            return np.arange(len(lots)), table[lots, drawn]
        respondents = np.repeat(np.arange(len(lots)), lengths)
        rows = table[lots]
        return respondents, rows[rows >= 0]

    @functools.cached_property
    def _lengths(self) -> NDArray[np.int64]:
        """The number of groups of every view."""
        return np.array([len(view) for view in self.views])

    @functools.cached_property
    def view_table(self) -> NDArray[np.int64]:
        """The groups of every view, a row each, -1 where it has fewer than others."""
        table = np.full((len(self.views), max(map(len, self.views))), -1)
        for row, view in enumerate(self.views):
            table[row, : len(view)] = view
        return table

    def asked(self, session: bytes, party: PartyId, most: int) -> tuple[int, ...]:
        """The groups that a party with a number of respondents may answer about, rising."""
        lots = set(self.lots(session, party, most).tolist())
        if len(lots) == 1:
            return self._risen[lots.pop()]
        return tuple(sorted({group for lot in lots for group in self.views[lot]}))

    @functools.cached_property
    def _risen(self) -> tuple[tuple[int, ...], ...]:
        """The groups of every view, rising."""
        return tuple(tuple(sorted(view)) for view in self.views)

    def by_views(
        self, session: bytes, members: Iterable[PartyId], most: int
    ) -> dict[tuple[int, ...], list[PartyId]]:
        """Group parties by the groups that they are asked about: one encoding serves them all."""
        found: dict[tuple[int, ...], list[PartyId]] = {}
        for party in members:
            found.setdefault(self.asked(session, party, most), []).append(party)
        return found

    def places(self, groups: tuple[int, ...]) -> NDArray[np.int64]:
        """Places of the cells of some groups, which rise."""
        asked = np.zeros(len(self.cells.sizes), np.bool_)
        asked[list(groups)] = True
        return np.flatnonzero(asked[self.cells.group])

    def tables(
        self, groups: NDArray[np.unsignedinteger], weights: NDArray[np.uint64]
    ) -> dict[int, KeepElseTable]:
        """Randomizers of an answer about each group.

        Raises:
            ValueError: other weights than these groups have, groups that do not rise, or a table
                that does not sum to 1.
        """
        numbers = groups.tolist()
        sizes = [self.layout.groups[group] for group in numbers]
        if sum(sizes) != len(weights) or sorted(set(numbers)) != numbers:
            raise ValueError(
                f"{len(weights)} weights for groups {numbers[:10]}: expected one for each cell, "
                "and rising groups"
            )
        found, start, words = {}, 0, weights.tolist()
        for group, size in zip(numbers, sizes, strict=True):
            part = tuple(words[start : start + size])
            found[group] = KeepElseTable(threshold=self.thresholds[group], weights=part)
            start += size
        return found

    def fits(
        self,
        session: bytes,
        party: PartyId,
        rows: NDArray[np.integer],
        groups: NDArray[np.integer],
        codes: NDArray[np.unsignedinteger],
        *,
        most: int,
    ) -> bool:
        """Check whether the lots of a party allow these answers."""
        if not len(rows) == len(groups) == len(codes) or not len(rows):
            return False
        respondents = int(rows.max()) + 1
        if respondents > most:
            return False
        lots = self.lots(session, party, respondents)
        if self.extent == "one":
            among = (self.view_table[lots[rows]] == groups[:, np.newaxis]).any(axis=1)
            allowed = bool((rows[1:] > rows[:-1]).all()) and bool(among.all())
        else:
            allowed = groups.tolist() == [
                group for lot in lots.tolist() for group in self.views[lot]
            ]
        # The groups are those of views, so their sizes are known.
        return allowed and not (codes >= self.cells.sizes[groups]).any()


@functools.lru_cache(maxsize=4096)
def _lots(session: bytes, party: PartyId, views: int, respondents: int) -> NDArray[np.int64]:
    # In a simulation both sides ask for them: before a block, in it and after it.
    seed = hashlib.sha256(b"sottovoce views 1\0" + session + party.encode()).digest()
    lots = Stream(seed).integers(views, respondents).astype(np.int64)
    lots.flags.writeable = False
    return lots


@functools.lru_cache(maxsize=16)
def _views(attributes: int, k: int) -> tuple[tuple[tuple[int, ...], ...], ...]:
    # Some sizes take seconds to find.
    return design_views(attributes, k)
