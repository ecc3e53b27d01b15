"""Marginal release: six ways to report on binary attributes so that every marginal is estimated."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from protocol.accounting.events import Derived, OneOf, Plain, PrivacyEvent, Public, Randomized
from protocol.errors import LocalProtocolError, PrivacyError, ProtocolError
from protocol.estimators.estimate import Estimate
from protocol.messages import AGGREGATOR, Message, PartyId
from protocol.randomizers.marginals import MarginalPlan, MarginalReports, Method, report_bits
from protocol.session.roles import Me, Seen
from protocol.session.variant import Claim, Epsilon, Variant
from protocol.surveys.records import Records
from protocol.variants.marginals.counts import MarginalCounts
from protocol.variants.marginals.encoding import BinaryEncoding, EncodedEstimate, binary_encoding
from protocol.variants.marginals.estimate import MarginalEstimate
from protocol.wire.arrays import Array, ArraySpec, Bounds, smallest_dtype
from protocol.wire.codec import Kind


class Request(Message, frozen=True):
    """The question; how it is answered is in the charter."""

    survey: bytes


class Bits(Message, frozen=True):
    """A party's reports, one after the other, bit by bit: no more than the paper says they take."""

    respondents: int
    bits: Array


class Counted(Message, frozen=True):
    """The published result: how many report on each choice, and what they report in sum."""

    reports: Array
    totals: Array


class MarginalRelease(Variant, frozen=True, kw_only=True):
    """Kulkarni, Cormode and Srivastava, Marginal Release Under Local Differential Privacy.

    Attributes of more than two categories are encoded as bits, and marginals are of bits: an
    attribute of r categories takes as many of the k as it has bits.

    Args:
        epsilon: of a report. None costs more.
        k: bits of a marginal.
    """

    heeds = ()
    method: ClassVar[Method]

    epsilon: Epsilon
    k: Annotated[int, Meta(ge=1, le=4)] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        longest = max(self.encoding.bits)
        if longest > self.k:
            raise ValueError(
                f"k = {self.k}: an attribute has {longest} bits, expected k to be at least that"
            )
        if not self.plan.choices:
            raise ValueError("the survey has no bits to report on")

    @functools.cached_property
    def encoding(self) -> BinaryEncoding:
        """The survey's categories as bits."""
        return binary_encoding(self.survey)

    @functools.cached_property
    def plan(self) -> MarginalPlan:
        """How respondents report."""
        d = len(self.encoding.binary.names)
        return MarginalPlan.with_epsilon(self.method, d=d, k=self.k, epsilon=self.epsilon)

    @property
    def report_bits(self) -> int:
        """The bits of one report."""
        return report_bits(self.method, d=self.plan.d, k=self.k)

    @property
    def contribution(self) -> type[Message]:
        """The report."""
        return Bits

    async def party(self, me: Me, records: Records) -> None:
        """Hear the question, report."""
        request = await me.receive(Request, AGGREGATOR)
        if request.survey != self.survey.digest:
            raise PrivacyError("asked about another survey than the one agreed to")
        stream = me.stream_for(request)
        reports = self.plan.randomize(self.encoding.cells(records), stream)
        await me.send(AGGREGATOR, Bits(len(records), self._packed(reports)))

    async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Counted:
        """Ask, wait, count."""
        quorum = self.quorum_of(len(parties))
        await me.broadcast(parties, Request(self.survey.digest))
        answers = await me.gather(Bits, parties, within=self.patience, at_least=quorum)
        fit = [reports for reports in map(self._unpacked, answers.values()) if reports is not None]
        if len(fit) < quorum:
            raise ProtocolError(f"{len(fit)} parties sent valid reports, at least {quorum} needed")
        choices = np.concatenate([reports.choices for reports in fit])
        said = np.concatenate([reports.answers for reports in fit])
        counts = MarginalCounts.of(self.plan, MarginalReports(choices, said))
        return Counted(counts.reports.astype(np.uint32), counts.totals.astype(np.uint32))

    def _packed(self, reports: MarginalReports) -> NDArray[np.uint8]:
        """Reports as bits: what each is about, then the answer; most significant bits first."""
        plan = self.plan
        about = self.report_bits - self._answer_bits
        columns = [_bits(reports.choices, about)]
        if plan.one_hot:
            columns.append(_one_hot_bits(reports.answers, plan.cells))
        else:
            columns.append(_bits(reports.answers, self._answer_bits))
        return np.packbits(np.concatenate(columns, axis=1))

    def _unpacked(self, message: Bits) -> MarginalReports | None:
        """The inverse of ``_packed``; None for malformed reports."""
        k, bits = message.respondents, self.report_bits
        if not 1 <= k <= self.max_records or len(message.bits) != -(-k * bits // 8):
            return None
        flat = np.unpackbits(message.bits)
        if flat[k * bits :].any():
            return None
        rows = flat[: k * bits].reshape(k, bits)
        about = bits - self._answer_bits
        choices = _numbers(rows[:, :about], smallest_dtype(self.plan.choices))
        randomizer = self.plan.randomizer
        if self.plan.one_hot:
            packed = np.packbits(rows[:, about:], axis=1, bitorder="little")
            answers: NDArray[np.unsignedinteger] = packed
            size = None
        else:
            answers = _numbers(rows[:, about:], smallest_dtype(randomizer.size))
            size = randomizer.size
        if (choices >= self.plan.choices).any() or (size and (answers >= size).any()):
            return None
        return MarginalReports(choices, answers)

    @property
    def _answer_bits(self) -> int:
        plan = self.plan
        return plan.cells if plan.one_hot else (plan.randomizer.size - 1).bit_length()

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        """A report is one draw of the randomizer on what it is about; which that is, is public."""
        match message:
            case Request():
                return Public()
            case Counted():
                return Derived()
            case Bits():
                reports = self._unpacked(message)
                if reports is not None:
                    return self._event(reports)
        return Plain(self.survey.names)

    def _event(self, reports: MarginalReports) -> PrivacyEvent:
        events = tuple(self._choice_event(choice) for choice in np.unique(reports.choices).tolist())
        return events[0] if len(events) == 1 else OneOf(events)

    def _choice_event(self, choice: int) -> PrivacyEvent:
        bits = {self.encoding.binary.names[place] for place in self.plan.attributes(choice)}
        names = tuple(n for n in self.survey.names if bits & set(self.encoding.bits_of(n)))
        return Randomized(self.plan.randomizer, names)

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        plan, most = self.plan, self.max_records
        width = 1 if plan.transformed else plan.cells
        high = parties * most + 1
        octets = Bounds(1, -(-most * self.report_bits // 8))
        return (
            Kind(Request, scalar_bytes=64),
            Kind(Bits, scalar_bytes=32, bits=ArraySpec(dtype="u1", shape=(octets,))),
            Kind(
                Counted,
                scalar_bytes=64,
                reports=ArraySpec(dtype="u4", shape=(plan.choices,), high=high),
                totals=ArraySpec(dtype="u4", shape=(plan.choices, width), high=high),
            ),
        )

    def estimate(self, result: Message) -> Estimate:
        if not isinstance(result, Counted):
            raise LocalProtocolError(f"{result.kind()!r} is not a result of {self.name!r}")
        counts = MarginalCounts(
            plan=self.plan,
            reports=result.reports.astype(np.int64),
            totals=result.totals.astype(np.int64),
        )
        found = MarginalEstimate(survey=self.encoding.binary, counts=counts)
        if self.encoding.binary == self.survey:
            return found
        return EncodedEstimate(self.survey, found)

    def claims(self) -> tuple[Claim, ...]:
        return (
            Claim(
                source="Marginal Release Under Local Differential Privacy",
                says="a report costs epsilon, whatever it is about",
                epsilon=self.epsilon,
            ),
        )


class InpRR(MarginalRelease, frozen=True, kw_only=True):
    """The whole record as one-hot bits, each by randomized response at half of epsilon."""

    name = "inp-rr"
    method = "InpRR"


class InpPS(MarginalRelease, frozen=True, kw_only=True):
    """The whole record by k-ary randomized response."""

    name = "inp-ps"
    method = "InpPS"


class InpHT(MarginalRelease, frozen=True, kw_only=True):
    """One Hadamard coefficient of 1 to k attributes by binary randomized response."""

    name = "inp-ht"
    method = "InpHT"


class MargRR(MarginalRelease, frozen=True, kw_only=True):
    """One marginal as one-hot bits, each by randomized response at half of epsilon."""

    name = "marg-rr"
    method = "MargRR"


class MargPS(MarginalRelease, frozen=True, kw_only=True):
    """One marginal by k-ary randomized response."""

    name = "marg-ps"
    method = "MargPS"


class MargHT(MarginalRelease, frozen=True, kw_only=True):
    """One Hadamard coefficient of one marginal by binary randomized response."""

    name = "marg-ht"
    method = "MargHT"


def _bits(numbers: NDArray[np.unsignedinteger], width: int) -> NDArray[np.uint8]:
    """Numbers as their bits, (n, width)."""
    shifts = np.arange(width - 1, -1, -1, dtype=np.uint64)
    bits: NDArray[np.uint8] = (
        (numbers.astype(np.uint64)[:, np.newaxis] >> shifts) & np.uint64(1)
    ).astype(np.uint8)
    return bits


def _numbers(
    bits: NDArray[np.uint8], dtype: np.dtype[np.unsignedinteger]
) -> NDArray[np.unsignedinteger]:
    """The inverse of ``_bits``."""
    found = np.zeros(len(bits), np.uint64)
    for column in bits.T:
        found = (found << np.uint64(1)) | column
    return found.astype(dtype)


def _one_hot_bits(answers: NDArray[np.unsignedinteger], size: int) -> NDArray[np.uint8]:
    """One-hot reports as ``UnaryEncoding`` packs them, the lowest bit first, as bits, (n, size)."""
    octets = answers.astype(np.uint8, copy=False)
    return np.unpackbits(octets, axis=1, count=size, bitorder="little")
