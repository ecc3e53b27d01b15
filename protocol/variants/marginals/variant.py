"""Marginal release: six ways to report on binary attributes so that every marginal is estimated."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, cast

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from protocol.accounting.events import OneOf, PrivacyEvent, Randomized
from protocol.crypto.randomness import Stream
from protocol.estimators.linear import LinearEstimate
from protocol.messages import Message
from protocol.randomizers.marginals import (
    MarginalPlan,
    MarginalReports,
    Method,
    Unary,
    report_bits,
)
from protocol.session.roles import Seen
from protocol.session.variant import Claim, Drawn, Epsilon
from protocol.surveys.records import Records
from protocol.variants.marginals.counts import MarginalCounts
from protocol.variants.marginals.encoding import BinaryEncoding, DecodedBits, binary_encoding
from protocol.variants.marginals.estimate import ReleasedMarginals
from protocol.variants.reports.by_stratum import weighted
from protocol.variants.reports.one_report import OneReport, Request
from protocol.wire.arrays import Array, ArraySpec, Bounds, smallest_dtype


class Bits(Message, frozen=True):
    """A party's reports, one after the other, packed into the number of bits in the paper."""

    scalar_bytes = 32

    respondents: int
    bits: Annotated[Array, ArraySpec(dtype="u1", shape=(Bounds(1, "octets"),))]


class Counted(Message, frozen=True):
    """The published result: the number of reports on each choice, and their sums."""

    scalar_bytes = 64

    reports: Annotated[Array, ArraySpec(dtype="u4", shape=("plan.choices",), most="respondents")]
    totals: Annotated[
        Array, ArraySpec(dtype="u4", shape=("plan.choices", "width"), most="respondents")
    ]


class MarginalRelease(OneReport[Request, Bits, MarginalReports], frozen=True, kw_only=True):
    """Kulkarni, Cormode and Srivastava, Marginal Release Under Local Differential Privacy.

    Attributes of more than two categories are encoded as bits, and marginals are of bits: an
    attribute takes as many of the k as it has bits.

    Args:
        epsilon: the largest cost of a report.
        k: bits of a marginal.
    """

    messages = (Request, Bits, Counted)
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
        """Plan of the respondents' reports."""
        d = len(self.encoding.binary.names)
        unary: Unary = getattr(self, "unary", "sue")
        return MarginalPlan.with_epsilon(
            self.method, d=d, k=self.k, epsilon=self.epsilon, unary=unary
        )

    @property
    def report_bits(self) -> int:
        """The bits of one report."""
        return report_bits(self.method, d=self.plan.d, k=self.k)

    @property
    def octets(self) -> int:
        """The most bytes of a party's reports."""
        return -(-self.max_records * self.report_bits // 8)

    @property
    def width(self) -> int:
        """Number of sums for a choice."""
        return 1 if self.plan.transformed else self.plan.cells

    def answer(self, records: Records, question: Request, stream: Stream) -> Bits:
        reports = self.plan.randomize(self.encoding.cells(records), stream)
        return Bits(len(records), self._packed(reports))

    def pooled(self, reports: Sequence[MarginalReports]) -> Counted:
        choices = np.concatenate([each.choices for each in reports])
        said = np.concatenate([each.answers for each in reports])
        counts = MarginalCounts.of(self.plan, MarginalReports(choices, said))
        return Counted(counts.reports.astype(np.uint32), counts.totals.astype(np.uint32))

    def _packed(self, reports: MarginalReports) -> NDArray[np.uint8]:
        """Reports as bits: the choice, then the answer; most significant bits first."""
        plan = self.plan
        about = self.report_bits - self._answer_bits
        columns = [_bits(reports.choices, about)]
        if plan.one_hot:
            columns.append(_one_hot_bits(reports.answers, plan.cells))
        else:
            columns.append(_bits(reports.answers, self._answer_bits))
        return np.packbits(np.concatenate(columns, axis=1))

    def read(self, report: Bits) -> MarginalReports | None:
        """The inverse of ``_packed``; None for malformed reports."""
        k, bits = report.respondents, self.report_bits
        if not 1 <= k <= self.max_records or len(report.bits) != -(-k * bits // 8):
            return None
        flat = np.unpackbits(report.bits)
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

    def report_reveals(self, report: MarginalReports, seen: Seen) -> PrivacyEvent:
        """Event of a report: one draw of the randomizer on a public choice."""
        events = tuple(self._choice_event(choice) for choice in np.unique(report.choices).tolist())
        return events[0] if len(events) == 1 else OneOf(events)

    def _choice_event(self, choice: int) -> Randomized:
        bits = {self.encoding.binary.names[place] for place in self.plan.attributes(choice)}
        names = tuple(n for n in self.survey.names if bits & set(self.encoding.name_bits(n)))
        return Randomized(self.plan.randomizer, names)

    def drawn(self, message: Message, event: PrivacyEvent, records: Records) -> list[Drawn] | None:
        """The answers on each choice that some respondent drew."""
        read = self.read(message) if isinstance(message, Bits) else None
        if read is None:
            return None
        found, cells = [], self.encoding.cells(records)
        for choice in np.unique(read.choices):
            rows = np.flatnonzero(read.choices == choice)
            inputs = self.plan.true_answers(cells, np.full(len(cells), choice))
            found.append(Drawn(self._choice_event(int(choice)), rows, read.answers[rows], inputs))
        return found

    def most(self) -> float:
        """Epsilon of the randomizer of one report."""
        return self.plan.epsilon

    def reports(self, result: Message) -> ReleasedMarginals:
        """The reports on the survey's bits."""
        counted = self.published(result, Counted)
        counts = MarginalCounts(
            plan=self.plan,
            reports=counted.reports.astype(np.int64),
            totals=counted.totals.astype(np.int64),
        )
        return ReleasedMarginals(survey=self.encoding.binary, counts=counts)

    @weighted
    def estimate(
        self, result: Message
    ) -> LinearEstimate[ReleasedMarginals] | LinearEstimate[DecodedBits]:
        bits = LinearEstimate(self.reports(result))
        if self.encoding.binary == self.survey:
            return bits
        return LinearEstimate(DecodedBits(self.survey, bits))

    def claims(self) -> tuple[Claim, ...]:
        return (
            Claim(
                source="Marginal Release Under Local Differential Privacy",
                says="a report costs epsilon, whatever it is about",
                epsilon=self.epsilon,
            ),
        )


def _variant(method: Method, doc: str) -> type[MarginalRelease]:
    """The variant of a method, such as ``inp-rr`` of ``InpRR``."""
    fields: list[tuple[str, Any, Any]] = []
    if method.endswith("RR"):
        fields = [("unary", Unary, "sue")]
        doc += _UNARY
    name = f"{method[:-2]}-{method[-2:]}".lower()
    namespace = {"name": name, "method": method, "__doc__": doc}
    made = msgspec.defstruct(
        method, fields, bases=(MarginalRelease,), module=__name__, namespace=namespace, frozen=True
    )
    return cast("type[MarginalRelease]", made)


_ONE_HOT = "as one-hot bits, each randomized by itself."
_UNARY = """

    Args:
        unary: of the bits: ``sue``, all flipped alike, or ``oue``, the 1 kept with probability 1/2.
"""

InpRR = _variant("InpRR", f"The whole record {_ONE_HOT}")
InpPS = _variant("InpPS", "The whole record by k-ary randomized response.")
InpHT = _variant(
    "InpHT", "A Hadamard coefficient of 1 to k attributes by binary randomized response."
)
MargRR = _variant("MargRR", f"One marginal {_ONE_HOT}")
MargPS = _variant("MargPS", "One marginal by k-ary randomized response.")
MargHT = _variant("MargHT", "A Hadamard coefficient of one marginal by binary randomized response.")


def _bits(numbers: NDArray[np.unsignedinteger], width: int) -> NDArray[np.uint8]:
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
    """Bits of one-hot reports, (n, size), packed as by ``UnaryEncoding``, the lowest bit first."""
    octets = answers.astype(np.uint8, copy=False)
    return np.unpackbits(octets, axis=1, count=size, bitorder="little")
