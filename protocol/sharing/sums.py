"""Secure sums: a vector of counts of every party goes in, and only the exact total comes out.

One dialogue serves both profiles. Parties await ``contribute`` and the aggregator ``collect``; then
``agree`` and ``carry``, if every party is to hold the total. Parties that sum nothing but compare a
total of another origin await ``join``, and the aggregator ``meet``. Every message comes once, so a
session has one sum.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Sequence
from typing import Annotated, Literal, Self, TypeAlias

import msgspec
import numpy as np
from msgspec import UNSET, Meta, UnsetType
from numpy.typing import NDArray

from protocol.accounting.events import (
    Coins,
    Derived,
    ExactCounts,
    Masked,
    PrivacyEvent,
    Public,
)
from protocol.accounting.spending import DELTA, Cost, event_cost, in_words
from protocol.errors import PrivacyError, ProtocolError, RemoteProtocolError
from protocol.messages import AGGREGATOR, Message, PartyId
from protocol.randomizers.coins import Noise
from protocol.session.roles import Me
from protocol.session.variant import Variant
from protocol.sharing import agreement, literal, meeting, sparse
from protocol.sharing.agreement import TOTALS
from protocol.sharing.graph import COMPLETE, Bound, Degree, Withstood, smallest_degree, withstood
from protocol.sharing.masks import modulus_bits
from protocol.sharing.meeting import Hood, Meeting
from protocol.sharing.messages import (
    Begin,
    Deal,
    Dealt,
    Graph,
    Join,
    Opening,
    Partial,
    Partials,
    Survivors,
    Tagged,
    Tags,
    Totals,
    Unmask,
    Upload,
    neighbour_kinds,
    sum_kinds,
)
from protocol.sharing.sparse import Sum, Summed
from protocol.transcript.certifying import Certificate, Witnesses
from protocol.wire.codec import Kind

__all__ = ["Groups", "Profile", "SecureSum", "Sum", "Summed", "totals_digest"]

Profile: TypeAlias = Literal["literal", "sparse"]

Groups: TypeAlias = tuple[int, ...]
"""The number of cells of each table of a vector; a respondent is in one cell of each table."""


MAX_LITERAL = 500
"""The most parties of a literal sum: its traffic grows with their square."""

CONTRADICTED = (
    "Some cell of the totals is smaller than this party's own count: the totals are false, or "
    "somebody has altered them."
)
"""The private notice of a party whose own counts exceed the totals."""


class SecureSum(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Parameters of a secure sum.

    Args:
        profile: of the secure sum: ``sparse`` or ``literal``. Literal is as the paper prints it,
            among all parties and without dropouts; sparse is among a few neighbours, and parties
            may vanish at every round.
        corrupt: share that may conspire with the aggregator. Empty is a third of up to 255 parties,
            a quarter of up to 32,768 and a fifth of more. A sum that withstands fewer does not
            begin.
        dropped: share that may be missing in all. With more missing, parties do not unmask.
        security: bits of the bound among more than 255 parties. The chance that the graph protects
            somebody too little is at most two to the minus this.
        correctness: the same for the chance that the sum cannot be unmasked.
        noise: what every party adds to each cell; None sums exactly.
        opening: ``published`` puts what takes the masks off a sparse sum on record, so that anybody
            can check the total. ``withheld`` keeps it with the aggregator: nobody else can check
            the total, and nobody else can conspire with parties to read others' counts.
        witnesses: who have to cosign the survivors of a sparse sum before parties unmask; without
            them, parties rely on each other's words alone.

    Raises:
        ValueError: a literal sum with witnesses.
    """

    profile: Profile = "sparse"
    corrupt: Annotated[float, Meta(ge=0, lt=1)] | None = None
    dropped: Annotated[float, Meta(ge=0, lt=1)] = 0.1
    security: Annotated[int, Meta(ge=2, le=256)] = 40
    correctness: Annotated[int, Meta(ge=2, le=256)] = 20
    opening: Literal["published", "withheld"] = "published"
    noise: Noise | None = None
    witnesses: Witnesses | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.profile == "literal" and self.certifying is not None:
            raise ValueError(
                "witnesses certify who survives in the sparse profile; in the literal one nobody "
                "may be missing"
            )

    @property
    def certifying(self) -> Witnesses | None:
        """The witnesses that certify the survivors, if any do."""
        return None if isinstance(self.witnesses, UnsetType) else self.witnesses

    def event(self, tables: tuple[tuple[str, ...], ...], names: Sequence[str]) -> PrivacyEvent:
        """Event of a contribution of true counts by itself.

        Args:
            tables: the attributes of each table.
            names: all attributes of the survey.
        """
        if self.noise is not None:
            return Coins(self.noise.trials, self.noise.chance, tables)
        counted = {name for table in tables for name in table}
        return ExactCounts(tuple(name for name in names if name in counted))

    def noised(self, epsilon: float, delta: float, *, tables: int, parties: int) -> Self:
        """The same sums, with the fewest coins that suffice among ``promised`` honest parties.

        Args:
            epsilon: a respondent's loss in nats, to an observer that knows nothing else of the
                honest parties.
            delta: the probability with which epsilon may fail. It includes the chance that the
                graph protects somebody too little.
            tables: the number of tables; a respondent is in one cell of each.
            parties: the number of parties of the roster.

        Raises:
            ValueError: a figure is out of its range, or there are too few parties for the bound.
        """
        # Imported late: a sum that is made does not need it.
        from protocol.accounting.coins import sized

        spare = 0.0 if parties <= COMPLETE else 2.0**-self.security
        noise = sized(epsilon, delta - spare, tables=tables, honest=self.promised(parties))
        return msgspec.structs.replace(self, noise=noise)

    def coins(self, parties: int) -> int:
        """Number of coins that this many parties add to a cell."""
        return 0 if self.noise is None else parties * self.noise.trials

    @property
    def contribution(self) -> type[Message]:
        """The kind of message that puts a party's counts into the total."""
        return Partial if self.profile == "literal" else Upload

    def degree(self, parties: int) -> Degree:
        """Neighbours of each party among this many, and how many of them can unmask.

        Raises:
            ValueError: there are too few parties for the bound.
        """
        return _degree(self, parties)

    def withstands(self, parties: int) -> Withstood:
        """The colluders with the aggregator that a sum of this many parties withstands.

        Raises:
            ValueError: there are too few parties for the bound.
        """
        named = self.certifying
        found = withstood(parties, self.degree(parties), _bound(self), certified=named is not None)
        return msgspec.structs.replace(
            found,
            # The record of a literal sum has all broadcasts.
            readers=self.profile == "literal" or self.opening == "published",
            witnesses=0 if named is None else len(named.keys),
            trusted=0 if named is None else named.honest,
        )

    def promised(self, parties: int, colluders: int = 0) -> int:
        """The fewest honest parties in a sum: all but those that may be missing or conspire.

        In a sparse graph this holds for colluders that were chosen before it was drawn.

        Args:
            colluders: the number that may conspire; the share ``corrupt`` of all, if that is more.

        Raises:
            ValueError: there are too few parties for the bound.
        """
        corrupt = max(colluders, _bound(self).corrupt_count(parties))
        return parties - self.withstands(parties).missing - corrupt

    def cost(self, event: PrivacyEvent, parties: int) -> Cost:
        """The cost of a contribution to a sum with its ``promised`` number of honest parties.

        Pure epsilon where the contribution has one; else at ``DELTA``, or infinite.

        Args:
            event: the event of the contribution by itself.
            parties: the number of parties of the roster.

        Raises:
            ValueError: there are too few parties for the bound.
        """
        return event_cost(Masked(event), honest=self.promised(parties), delta=DELTA)

    def kinds(self, *, cells: int, parties: int, respondents: int) -> tuple[Kind, ...]:
        """The kinds of message of a sum.

        Args:
            cells: the number of cells of the total.
            parties: the number of parties of the roster.
            respondents: the most that there can be.

        Raises:
            ValueError: there are too few parties for the bound.
        """
        return sum_kinds(
            cells=cells,
            parties=parties,
            most=respondents + self.coins(parties),
            neighbours=self.degree(parties).neighbours,
            literal=self.profile == "literal",
            opening=self.opening == "published",
            certificate=0 if self.certifying is None else self.certifying.note_bytes,
        )

    def meeting_kinds(self, parties: int) -> tuple[Kind, ...]:
        """The kinds of message of ``join``, ``meet``, ``agree`` and ``carry``.

        Raises:
            ValueError: there are too few parties for the bound.
        """
        return neighbour_kinds(parties=parties, neighbours=self.degree(parties).neighbours)

    def needed(self, parties: int, quorum: int) -> int:
        """The fewest parties that must answer a round: all but those that may be missing.

        Raises:
            ValueError: there are too few parties for the bound.
        """
        return max(quorum, parties - self.withstands(parties).missing)

    async def begun(self, me: Me, *, survey: bytes, event: PrivacyEvent) -> Begin:
        """A party's side: wait until the sum begins, and consent.

        Args:
            survey: the digest of the survey agreed to.
            event: the event of the contribution. A party that cannot afford it declines here,
                before others count on it.

        Raises:
            PrivacyError: asked for another survey than agreed to, or for too much.
        """
        begin = await me.receive(Begin, AGGREGATOR)
        if begin.survey != survey:
            raise PrivacyError("asked about another survey than the one agreed to")
        try:
            me.afford(event)
        except PrivacyError as error:
            if self.noise is None or me.honest or not isinstance(event, Masked):
                raise
            parties = len(me.roster) - 1
            cost = self.cost(event.event, parties)
            wanted = f": it takes a consent of its own (--honest {self.promised(parties)})"
            hint = wanted if math.isfinite(cost.epsilon) else ""
            raise PrivacyError(f"{in_words(cost)}{hint}") from error
        return begin

    async def join(self, me: Me, *, respondents: int) -> Hood:
        """A party's side: meet the neighbours, with nothing to sum.

        Args:
            respondents: the number of respondents that this party speaks for.

        Raises:
            RemoteProtocolError: the neighbours are not those that the public coin draws.
        """
        neighbours = self.degree(len(me.roster) - 1).neighbours
        return await meeting.join(me, respondents=respondents, neighbours=neighbours)

    async def meet(
        self, me: Me, *, survey: bytes, max_records: int, within: float | None, quorum: int
    ) -> Meeting:
        """The aggregator's side of ``join``; the arguments are those of ``collect``.

        Raises:
            QuorumError: too few answered; it says who is missing.
        """
        fit, _ = await self._joined(
            me, survey, max_records=max_records, within=within, quorum=quorum
        )
        neighbours = self.degree(len(me.roster.parties)).neighbours
        return await meeting.meet(me, fit, neighbours=neighbours)

    async def contribute(
        self,
        me: Me,
        values: NDArray[np.unsignedinteger],
        *,
        groups: Groups,
        respondents: int,
        most: int,
        quorum: int,
        everyone: bool,
    ) -> Summed | None:
        """A party's side.

        If a cell of the total is below this party's own, its member alone gets a notice, and the
        role goes on. A refusal would reveal the values to the author of the false total.

        Args:
            values: (cells,), this party's own counts.
            groups: the tables of the vector.
            respondents: the number of respondents that this party speaks for.
            most: the most respondents that there can be.
            quorum: the fewest parties of a sum.
            everyone: whether every party gets the total; in the literal profile all do.

        Returns:
            The total, if this party gets it.

        Raises:
            PrivacyError: more parties are missing than agreed, or the sum protects less than this
                party demands.
            RemoteProtocolError: others broke the rules; it names them, if they are known.
        """
        parties = len(me.roster) - 1
        self._meet_demands(me, parties)
        values = self.with_coins(me, values)
        if self.profile == "literal":
            summed = await literal.contribute(
                me, values, respondents=respondents, most=most, coins=self.coins(parties)
            )
            self.check(summed.totals, summed.respondents, groups, parties, least=respondents)
            _compare(me, summed.totals, values)
            return summed
        hood = await sparse.contribute(
            me,
            values,
            respondents=respondents,
            degree=self.degree(parties),
            bits=modulus_bits(most + self.coins(parties)),
            least=self.needed(parties, quorum),
            witnesses=self.certifying,
        )
        if not everyone:
            return None
        published = await me.receive(Totals, AGGREGATOR)
        totals = published.totals.astype(np.int64)
        # Every other party speaks for one respondent at least.
        least = respondents + hood.joined - 1
        self.check(
            totals, published.respondents, groups, hood.joined, least=least, most=hood.respondents
        )
        _compare(me, totals, values)
        return Summed(
            totals, published.respondents, hood, totals_digest(totals, published.respondents)
        )

    def with_coins(
        self, me: Me, values: NDArray[np.unsignedinteger], parties: int = 1
    ) -> NDArray[np.unsignedinteger]:
        """Counts with the coins of a party in each cell, or of as many as it stands for."""
        if self.noise is None or not parties:
            return values
        # The stream depends on the session: equal coins in two sums would cancel in a difference.
        stream = me.stream.derive(f"coins {me.session.hex()}")
        coins = msgspec.structs.replace(self.noise, trials=parties * self.noise.trials)
        return values + coins.draw(stream, len(values))

    async def agree(self, me: Me, summed: Summed, also: bytes = b"") -> None:
        """A party's side: make sure that the neighbours hold the same total.

        Args:
            also: what else must be the same.

        Raises:
            RemoteProtocolError: a neighbour received other totals; it names the neighbour.
        """
        degree = self.degree(len(me.roster) - 1)
        digest = hashlib.sha256(summed.digest + also).digest()
        await agreement.agree(me, summed.hood, digest, round=TOTALS, degree=degree)

    async def collect(
        self,
        me: Me,
        *,
        survey: bytes,
        groups: Groups,
        max_records: int,
        within: float | None,
        quorum: int,
        everyone: bool,
    ) -> Sum:
        """The aggregator's side; the arguments are those of ``contribute``.

        Args:
            max_records: the most respondents that one party speaks for.
            within: how long to wait for each round of answers, in seconds.

        Raises:
            QuorumError: too few answered; it says who is missing.
            ProtocolError: the sum failed; it says why.
        """
        parties = me.roster.parties
        quorum = self.needed(len(parties), quorum)
        fit, unfit = await self._joined(
            me,
            survey,
            max_records=max_records,
            within=within,
            quorum=quorum,
        )
        if self.profile == "literal":
            coins = self.coins(len(parties))
            summed = await literal.collect(me, fit, within=within, coins=coins)
        else:
            summed = await sparse.collect(
                me,
                fit,
                cells=sum(groups),
                degree=self.degree(len(parties)),
                bits=modulus_bits(len(parties) * max_records + self.coins(len(parties))),
                within=within,
                quorum=quorum,
                published=self.opening == "published",
                witnesses=self.certifying,
            )
            accused = {*summed.accused, *unfit}
            summed = summed._replace(accused=tuple(n for n in parties if n in accused))
        try:
            self.check(summed.totals, summed.respondents, groups, len(summed.survivors))
        except RemoteProtocolError as error:
            raise ProtocolError(
                f"the totals are not counts of {summed.respondents} respondents ({error}): some "
                "party contributed invalid values"
            ) from error
        if everyone and self.profile == "sparse":
            totals = summed.totals.astype(np.uint32)
            await me.broadcast(summed.survivors, Totals(summed.respondents, totals))
        return summed

    async def carry(
        self, me: Me, summed: Sum, *, within: float | None, quorum: int
    ) -> tuple[PartyId, ...]:
        """The aggregator's side of ``agree``; returns the parties that agreed."""
        needed = self.needed(len(me.roster.parties), quorum)
        return await agreement.carry(
            me, summed.survivors, summed.hoods, round=TOTALS, within=within, quorum=needed
        )

    def check(
        self,
        totals: NDArray[np.int64],
        respondents: int,
        groups: Groups,
        parties: int,
        *,
        least: int = 1,
        most: int | None = None,
    ) -> None:
        """Refuse totals that are no counts: every respondent is in one cell of every table.

        Noisy counts only need a likely number of coins, so a false count within their spread
        passes.

        Args:
            parties: the number of parties with contributions in the totals.
            least: the fewest respondents that there can be.
            most: the most; None if unknown.

        Raises:
            RemoteProtocolError: names the table.
        """
        if respondents < least:
            raise RemoteProtocolError(
                f"{respondents} respondents, expected at least {least}", field="totals"
            )
        if most is not None and respondents > most:
            raise RemoteProtocolError(
                f"{respondents} respondents, expected at most {most}", field="totals"
            )
        start, largest = 0, respondents + self.coins(parties)
        for place, cells in enumerate(groups):
            table, low, high = totals[start : start + cells], respondents, respondents
            if self.noise is not None:
                fewest, up = self.noise.slack(cells, parties)
                low, high = low + fewest, high + up
            fits = low <= table.sum() <= high
            if not fits or (table < 0).any() or (table > largest).any():
                expected = f"{low}" if low == high else f"{low} to {high}"
                raise RemoteProtocolError(
                    f"table {place} sums to {table.sum()}, expected {expected}", field="totals"
                )
            start += cells

    def reveals(self, message: Message, event: PrivacyEvent) -> PrivacyEvent | None:
        """Event of a message of the dialogue; None for other kinds.

        Args:
            event: the event of a party's contribution by itself.
        """
        match message:
            # Shares are drawn without a look at the records.
            case Begin() | Join() | Deal():
                return Public()
            case Graph() | Dealt() | Certificate() | Survivors() | Tagged():
                return Public()
            case Upload() | Partial():
                return Masked(event)
            case Unmask() | Opening() | Partials() | Totals() | Tags():
                return Derived()
            case _:
                return None

    def _meet_demands(self, me: Me, parties: int) -> None:
        """Refuse a sum that protects less than this party demands.

        It refuses before it joins: others would unmask its values by the agreed terms.
        """
        found = self.withstands(parties)
        if found.colluders < me.withstand:
            raise PrivacyError(
                f"the sum withstands {found.colluders} who conspire with the aggregator, and this "
                f"party demands {me.withstand}"
            )
        promised = self.promised(parties, me.withstand)
        if promised < me.honest:
            raise PrivacyError(
                f"the sum promises {promised} honest parties, and this party demands {me.honest}"
            )

    async def _joined(
        self,
        me: Me,
        survey: bytes,
        *,
        max_records: int,
        within: float | None,
        quorum: int,
    ) -> tuple[dict[PartyId, Join], tuple[PartyId, ...]]:
        """Begin the sum: the valid joins, and the parties with invalid ones.

        Raises:
            QuorumError: too few answered; it says who is missing.
            ProtocolError: too few joins are valid; it names the parties with invalid ones.
        """
        parties = me.roster.parties
        await me.broadcast(parties, Begin(survey))
        needed = self.needed(len(parties), quorum)
        joins = await me.gather(Join, parties, within=within, at_least=needed)
        fit = {name: join for name, join in joins.items() if 1 <= join.respondents <= max_records}
        unfit = tuple(name for name in joins if name not in fit)
        if len(fit) < needed:
            raise ProtocolError(f"invalid number of respondents from {', '.join(unfit[:5])}")
        return fit, unfit


@functools.lru_cache(maxsize=64)
def _degree(sums: SecureSum, parties: int) -> Degree:
    if sums.profile == "literal":
        if parties < 2:
            raise ValueError(
                "a secure sum needs at least 2 parties: a sum over one party shows its values"
            )
        if parties > MAX_LITERAL:
            raise ValueError(
                f"{parties} parties: the literal profile allows at most {MAX_LITERAL}, since each "
                "deals to all others; use the sparse profile"
            )
        everybody = Degree(neighbours=parties - 1, threshold=parties - 1)
        withstood(parties, everybody, _bound(sums))
        return everybody
    return smallest_degree(parties, _bound(sums), certified=sums.certifying is not None)


def find_secure_sum(variant: Variant) -> SecureSum | None:
    """Secure sum among the parameters of a variant, if there is one."""
    values = (getattr(variant, field.name) for field in msgspec.structs.fields(variant))
    return next((value for value in values if isinstance(value, SecureSum)), None)


def _bound(sums: SecureSum) -> Bound:
    return Bound(
        corrupt=sums.corrupt,
        dropped=sums.dropped,
        security=sums.security,
        correctness=sums.correctness,
    )


def _compare(me: Me, totals: NDArray[np.int64], own: NDArray[np.unsignedinteger]) -> None:
    """Note for the member alone that totals are below its own counts."""
    if (totals < own).any():
        me.notice(CONTRADICTED)


def totals_digest(totals: NDArray[np.int64], respondents: int) -> bytes:
    """The digest of a total, which parties compare."""
    numbers = totals.astype("<i8").tobytes() + respondents.to_bytes(8, "big")
    return hashlib.sha256(b"totals" + numbers).digest()
