"""The outcome of a run: its published result, estimate, transcript and ledger."""

from __future__ import annotations

import functools
import html
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar, cast

import msgspec

from protocol.audit.coalition.coalition import serving
from protocol.audit.completeness import Completeness, CompletenessWriter
from protocol.audit.design_effects import PartWriter
from protocol.audit.hearing import collect_heads
from protocol.audit.ledger import Ledger, LedgerWriter
from protocol.audit.walk import steps
from protocol.estimators.design_effects import DesignEffects
from protocol.estimators.estimate import Estimate
from protocol.messages import DONE, Message, PartyId
from protocol.session.charter import Charter
from protocol.session.variant import Variant, settled
from protocol.surveys.records import Records
from scenarios.files.transcripts import Transcript
from transports.base import LOST_WITH

if TYPE_CHECKING:
    from protocol.audit.coalition.finding import CoalitionFinding

E = TypeVar("E", bound=Estimate)
E_co = TypeVar("E_co", bound=Estimate, covariant=True)
V_co = TypeVar("V_co", bound=Variant, covariant=True)


class Estimating(Protocol[E_co]):
    """A variant, for the type of its estimates."""

    def estimate(self, result: Message, /) -> E_co:
        """The estimate in a published result."""
        ...


class WithEstimate(Protocol[E_co]):
    """A finished survey, generic in the type of its estimate."""

    @property
    def variant(self) -> Estimating[E_co]:
        """Variant by which people were asked."""
        ...

    @property
    def result(self) -> Message:
        """Published message."""
        ...


class _Read(NamedTuple):
    """Results of one pass over the transcript."""

    ledger: LedgerWriter
    completeness: Completeness
    parts: PartWriter


class Outcome(msgspec.Struct, Generic[V_co], frozen=True, kw_only=True, dict=True):
    """A finished run, generic in its variant.

    Args:
        charter: session, variant and roster.
        result: the published result.
        transcript: the record; ``digest`` is its canonical digest, 32 bytes.
        endings: ending of each party; ``"done"`` if all went well.
        records: the true answers, if this was a simulation.
        seed: seed of a simulation, or None.
        withheld: whether the transcript does without it.
        transport: ``local``, ``memory``, ``tcp`` or ``tls``.
        messages, bytes: number and size of sent messages.
        seconds: running time.
    """

    charter: Charter
    result: Message
    transcript: Transcript
    digest: bytes
    endings: Mapping[PartyId, str]
    records: Records | None
    seed: int | None
    transport: str
    messages: int
    bytes: int
    seconds: float
    withheld: bool = False

    def __repr__(self) -> str:
        return (
            f"<Outcome: {self.variant.name}, {self.charter.parties} parties over {self.transport}, "
            f"digest {self.digest.hex()[:16]}>"
        )

    @property
    def variant(self) -> V_co:
        """The protocol that was run."""
        return cast(V_co, self.charter.variant)

    @property
    def estimate(self: WithEstimate[E]) -> E:
        """The estimate in the published result, of the type that the variant's estimates have."""
        return cast(E, cast("Outcome[Variant]", self)._estimate)

    @functools.cached_property
    def _estimate(self) -> Estimate:
        return self.variant.estimate(self.result)

    @functools.cached_property
    def ledger(self) -> Ledger:
        """Ledger of the aggregator, from the transcript."""
        return self._read.ledger.ledger(serving(self.charter.roster))

    @functools.cached_property
    def alone(self) -> CoalitionFinding | None:
        """Knowledge of the aggregator alone on secure sums; None if the variant has none."""
        if self._read.ledger.sums is None:
            return None
        # Imported late: few runs sum.
        from protocol.audit.coalition.judge import alone_in

        return alone_in(self._read.ledger)

    @property
    def completeness(self) -> Completeness:
        """Participation, from the transcript."""
        return self._read.completeness

    @property
    def counted(self) -> int:
        """The number of parties that the estimate counts."""
        return self.completeness.counted

    @property
    def design(self) -> tuple[DesignEffects | None, str]:
        """The design effects of the estimate, or why they are not known (``PartWriter.found``)."""
        return self._read.parts.found(self.estimate)

    @functools.cached_property
    def _read(self) -> _Read:
        ledger, completeness = LedgerWriter(self.charter), CompletenessWriter(self.charter)
        parts = PartWriter(self.charter)
        if not settled(self.variant):
            ledger.start(collect_heads(self.transcript.entries()))
        for step in steps(self.charter.codec, self.transcript.entries()):
            ledger.add(step)
            completeness.add(step)
            parts.add(step)
        return _Read(ledger, completeness.completeness(), parts)

    @property
    def trouble(self) -> dict[str, int]:
        """The number of parties that did not end well, by reason."""
        completeness = self.completeness
        # The worst known ending of a party counts.
        became = {
            name: "its answer was not counted" for c in completeness.closings for name in c.missing
        }
        became |= {name: ending for name, ending in self.endings.items() if ending != DONE}
        # The record shows that a worker was lost, an ending also why.
        became |= {
            name: reason
            for name, reason in completeness.departed.items()
            if not (reason.startswith(LOST_WITH) and became.get(name, "").startswith(LOST_WITH))
        }
        return dict(Counter(became.values()).most_common())

    def _repr_html_(self) -> str:
        title = html.escape(self.variant.survey.title)
        return (
            f"<h4>{title}: {html.escape(self.variant.name)}</h4>"
            f"<p>estimated from {self.counted} of {self.charter.parties} parties, over "
            f"{html.escape(self.transport)}; {self.messages} messages, {self.bytes} bytes; "
            f"epsilon {self.ledger.record_epsilon:.4g} per record; "
            f"digest <code>{self.digest.hex()}</code></p>{self.estimate._repr_html_()}"
        )
