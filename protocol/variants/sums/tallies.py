"""Exact tables by secure sum: the common part of variants that count or negotiate by it.

Every party counts its respondents' answers in the same tables, concatenated to one vector. The
vectors are summed, and nobody learns more than the sum.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Generator, Iterable, Sequence
from itertools import combinations
from typing import Generic, Literal, NamedTuple, Self, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.accounting.events import Masked, PrivacyEvent
from protocol.accounting.spending import Cost, event_cost
from protocol.errors import CannotTabulateError
from protocol.estimators.estimate import Estimate
from protocol.estimators.linear import LinearEstimate
from protocol.estimators.releases.exact import ExactTables
from protocol.estimators.releases.noisy import NoisyTables
from protocol.messages import Message, PartyId
from protocol.session.roles import Me, Seen
from protocol.session.tabulation import Respondents, Stage, Totals
from protocol.session.variant import Variant
from protocol.sharing.messages import Begin
from protocol.sharing.sums import Groups, SecureSum
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey
from protocol.wire.arrays import Array, ArraySpec
from protocol.wire.codec import Kind

E = TypeVar("E", bound=Estimate)

Names = tuple[str, ...]


class Tally(Message, frozen=True):
    """The published result: the sum, and who is in it.

    Args:
        respondents: the number of respondents in it.
        survivors: the parties with counts in it, a bitmap over the roster.
        accused: the parties with invalid shares or messages, a bitmap.
        totals: (cells,) the tables, one after the other.
    """

    respondents: int
    survivors: bytes
    accused: bytes
    totals: Array


class Layout(NamedTuple):
    """Tables of a vector.

    Args:
        tables: the attributes of each.
        shapes: their numbers of categories.
        groups: the number of cells of each.
        strides: (m, t) the stride of a code of each attribute in the cells of each table.
        starts: the place where each table begins.
    """

    tables: tuple[Names, ...]
    shapes: tuple[tuple[int, ...], ...]
    groups: Groups
    strides: NDArray[np.int64]
    starts: NDArray[np.int64]

    @property
    def cells(self) -> int:
        """The length of the vector."""
        return sum(self.groups)

    def table_cells(self, records: Records) -> NDArray[np.int64]:
        """The cell of every respondent in every table, (k, t), each from 0."""
        cells: NDArray[np.int64] = records.codes.astype(np.int64) @ self.strides
        return cells

    def cells_at(
        self, records: Records, respondents: NDArray[np.integer], tables: NDArray[np.integer]
    ) -> NDArray[np.int64]:
        """The cell of some respondents, each in one table, (a,), from 0.

        Args:
            respondents: (a,) rows of the records.
            tables: (a,) which table for each.
        """
        codes = records.codes[respondents].astype(np.int64)
        cells: NDArray[np.int64] = np.einsum("ij,ji->i", codes, self.strides[:, tables])
        return cells

    def counted(self, cells: NDArray[np.integer]) -> NDArray[np.uint32]:
        """The vector of counts of such cells."""
        flat = (cells + self.starts).reshape(-1)
        return np.bincount(flat, minlength=self.cells).astype(np.uint32)

    def split(self, totals: NDArray[np.integer]) -> dict[Names, NDArray[np.int64]]:
        """The tables of a vector, by their attributes."""
        parts = np.split(totals.astype(np.int64), self.starts[1:])
        return {
            names: part.reshape(shape)
            for names, shape, part in zip(self.tables, self.shapes, parts, strict=True)
        }


@functools.lru_cache(maxsize=64)
def make_layout(survey: Survey, tables: tuple[Names, ...]) -> Layout:
    """Layout of a vector of these tables, each row-major.

    Raises:
        ValueError: no table, or one without attributes.
        SurveyError: an unknown or repeated name.
    """
    if not tables or not all(tables):
        raise ValueError("expected tables of at least one attribute")
    shapes = tuple(tuple(survey.sizes[axis] for axis in survey.axes(names)) for names in tables)
    strides = np.zeros((len(survey.sizes), len(tables)), np.int64)
    for place, (names, shape) in enumerate(zip(tables, shapes, strict=True)):
        for i, axis in enumerate(survey.axes(names)):
            strides[axis, place] = math.prod(shape[i + 1 :])
    sizes = tuple(math.prod(shape) for shape in shapes)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    return Layout(tables, shapes, sizes, strides, starts)


def all_pairs(survey: Survey) -> tuple[Names, ...]:
    """Every pair of attributes: (first, second), (first, third) and so on."""
    return tuple(combinations(survey.names, 2))


class Tallied(Variant, Generic[E], frozen=True, kw_only=True):
    """Base of the protocols that publish a secure sum of tables. Its type is that of the estimate.

    Args:
        sums: the profile of the sum and its bounds.
        everyone: every party gets the total and checks it. All make sure that the others got the
            same; in the literal profile they always do.
    """

    heeds = ()
    derived = (Tally,)

    sums: SecureSum = SecureSum()
    everyone: bool = False

    @property
    def tables(self) -> tuple[Names, ...]:
        """Tables that are counted."""
        raise NotImplementedError

    @property
    def contribution_event(self) -> PrivacyEvent:
        """Event of a party's contribution by itself."""
        raise NotImplementedError

    def vector(self, me: Me, question: Message, records: Records) -> NDArray[np.uint32]:
        """Contribution of a party."""
        raise NotImplementedError

    @functools.cached_property
    def layout(self) -> Layout:
        """Layout of the vector."""
        return make_layout(self.survey, self.tables)

    @property
    def contribution(self) -> type[Message]:
        """The counts under masks."""
        return self.sums.contribution

    async def party(self, me: Me, records: Records) -> None:
        """Contribute; receive the total and compare it with the neighbours', if all get it."""
        sums, parties = self.sums, len(me.roster) - 1
        begin = await sums.begun(
            me, survey=self.survey.digest, event=Masked(self.contribution_event)
        )
        summed = await sums.contribute(
            me,
            self.vector(me, begin, records),
            groups=self.layout.groups,
            respondents=len(records),
            most=parties * self.max_records,
            quorum=self.quorum_of(parties),
            everyone=self.everyone,
        )
        if summed is not None:
            await sums.agree(me, summed)

    async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Tally:
        """Sum and publish."""
        quorum = self.quorum_of(len(parties))
        summed = await self.sums.collect(
            me,
            survey=self.survey.digest,
            groups=self.layout.groups,
            max_records=self.max_records,
            within=self.patience,
            quorum=quorum,
            everyone=self.everyone,
        )
        if self.everyone or self.sums.profile == "literal":
            await self.sums.carry(me, summed, within=self.patience, quorum=quorum)
        return Tally(
            summed.respondents,
            me.roster.bitmap(summed.survivors),
            me.roster.bitmap(summed.accused),
            summed.totals.astype(np.uint32),
        )

    def stages(self, people: int) -> Generator[Stage, Totals, Tally]:
        """One sum over the parties.

        Raises:
            CannotTabulateError: this many parties cannot sum.
        """
        counted = yield Stage(Begin(self.survey.digest), people)
        parties = int(counted[0])
        try:
            self.sums.degree(parties)
        except ValueError as error:
            raise CannotTabulateError(
                f"variant {self.name!r} cannot be tabulated: {error}"
            ) from error
        # All but the aggregator, which is first on the roster.
        everybody, length = 2 ** (parties + 1) - 2, (parties + 8) // 8
        return Tally(people, everybody.to_bytes(length, "little"), bytes(length), counted[1:])

    def count(self, stage: Stage, parties: Iterable[Respondents]) -> Totals:
        """The number of parties, and the sum of their contributions, with their coins."""
        found = np.zeros(1 + self.layout.cells, np.int64)
        for party in parties:
            values = self.vector(party.me, stage.asked, party.records)
            found[0] += party.parties
            found[1:] += self.sums.with_coins(party.me, values, party.parties)
            # There are no messages here; with messages it would be masked.
            party.told.append(Masked(self.contribution_event))
        return found

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        """A contribution is ``contribution_event`` under masks; all else follows from it."""
        summed = self.sums.reveals(message, self.contribution_event)
        return super().reveals(message, seen) if summed is None else summed

    def most_among(self, honest: int, delta: float) -> Cost:
        """One contribution."""
        return event_cost(Masked(self.contribution_event), honest=honest, delta=delta)

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        cells, respondents = self.layout.cells, parties * self.max_records
        most = respondents + self.sums.coins(parties)
        totals = ArraySpec(dtype="u4", shape=(cells,), most=most)
        return (
            *self.sums.kinds(cells=cells, parties=parties, respondents=respondents),
            Kind(Tally, scalar_bytes=128 + parties, totals=totals),
        )

    def estimate(self, result: Message) -> E:
        tally = self.published(result, Tally)
        parties = int.from_bytes(tally.survivors, "little").bit_count()
        totals = tally.totals.astype(np.int64)
        self.sums.check(totals, tally.respondents, self.layout.groups, parties)
        return self.table_estimate(self.layout.split(totals), tally.respondents, parties)

    def table_estimate(
        self, tables: dict[Names, NDArray[np.int64]], respondents: int, parties: int
    ) -> E:
        """Estimate from the summed tables.

        Args:
            respondents: the number of respondents in the tables.
            parties: the number of parties that speak for them.
        """
        raise NotImplementedError


class Counted(Tallied[LinearEstimate[NoisyTables]], frozen=True, kw_only=True):
    """Base of the protocols that count true answers, exactly or with coins."""

    @classmethod
    def with_noise(
        cls,
        survey: Survey,
        noise: Literal["coins", "none"] = "coins",
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        parties: int | None = None,
        sums: SecureSum | None = None,
        everyone: bool = False,
    ) -> Self:
        """Count with the fewest coins that are enough, or exactly.

        Args:
            noise: ``none`` counts exactly, and no epsilon bounds that.
            epsilon: a respondent's loss in nats, if the promised number of parties is honest and
                present (``SecureSum.promised``). Nothing bounds it if all others conspire.
            delta: the probability with which epsilon may fail.
            parties: the number of parties of the roster.

        Raises:
            ValueError: no parties are given for coins, or a figure is out of its range.
        """
        exact = cls(survey=survey, sums=sums or SecureSum(), everyone=everyone)
        if noise == "none":
            return exact
        if parties is None:
            raise ValueError("coins are sized for a number of parties: expected 'parties'")
        tables = len(exact.tables)
        noised = exact.sums.noised(epsilon, delta, tables=tables, parties=parties)
        return msgspec.structs.replace(exact, sums=noised)

    @functools.cached_property
    def contribution_event(self) -> PrivacyEvent:
        """Counts of the true answers, with this party's coins if there are any."""
        return self.sums.event(self.tables, self.survey.names)

    def vector(self, me: Me, question: Message, records: Records) -> NDArray[np.uint32]:
        """Counts of the true answers."""
        return self.layout.counted(self.layout.table_cells(records))

    def table_estimate(
        self, tables: dict[Names, NDArray[np.int64]], respondents: int, parties: int
    ) -> LinearEstimate[NoisyTables]:
        """The counts themselves, or the tables that agree and are nearest to them."""
        noise = self.sums.noise
        if noise is None:
            return LinearEstimate(ExactTables(self.survey, tables))
        trials = parties * noise.trials
        return LinearEstimate(NoisyTables(self.survey, tables, respondents, trials, noise.chance))
