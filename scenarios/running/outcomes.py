"""The outcome of a run: its published result, estimate, transcript and ledger."""

from __future__ import annotations

import functools
import html
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, TypeVar, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.audit.completeness import Completeness, CompletenessWriter
from protocol.audit.design_effects import PartWriter
from protocol.audit.hearing import heads_of
from protocol.audit.ledger import Ledger, LedgerWriter
from protocol.audit.walk import steps
from protocol.errors import SurveyError
from protocol.estimators.design_effects import DesignEffects
from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.words import USUAL, Intervals
from protocol.estimators.measures import total_variation
from protocol.estimators.projection import Projection
from protocol.estimators.tables import Table
from protocol.messages import AGGREGATOR, DONE, NO_ROUND, Message, PartyId
from protocol.session.charter import Charter
from protocol.session.variant import Variant, settled
from protocol.surveys.records import Records
from protocol.transcript.entries import WITHHELD
from scenarios.files.transcripts import Transcript
from scenarios.report.announced import announced_values
from scenarios.report.common_values import claims_values, means_values, privacy_values
from scenarios.report.formatting import as_json
from scenarios.report.intervals import interval_values
from scenarios.report.sampling import design_values, response_values
from scenarios.report.statement.coalitions import aggregator_alone
from scenarios.report.statement.verdicts import on_privacy
from transports.shards.shard import LOST

if TYPE_CHECKING:
    from protocol.audit.coalition.coalition import Coalition
    from protocol.audit.coalition.finding import CoalitionFinding
    from protocol.audit.coalition.judge import CoalitionReading
    from protocol.audit.disclosure import Disclosure

E = TypeVar("E", bound=Estimate)
E_co = TypeVar("E_co", bound=Estimate, covariant=True)
V_co = TypeVar("V_co", bound=Variant, covariant=True)


class Estimating(Protocol[E_co]):
    """A variant, for the type of its estimates."""

    def estimate(self, result: Message, /) -> E_co:
        """The estimate in a published result."""
        ...


class WithEstimate(Protocol[E_co]):
    """A survey that is over, for the type of its estimate: that of its variant's."""

    @property
    def variant(self) -> Estimating[E_co]:
        """How people were asked."""
        ...

    @property
    def result(self) -> Message:
        """What was published."""
        ...


class _Read(NamedTuple):
    """What one pass over the transcript gives."""

    ledger: Ledger
    completeness: Completeness
    parts: PartWriter
    alone: CoalitionReading | None


class Outcome(msgspec.Struct, Generic[V_co], frozen=True, kw_only=True, dict=True):
    """A finished run. Its type is that of the variant.

    Args:
        charter: session, variant and roster.
        result: what the aggregator published.
        transcript: the record; ``digest`` is its canonical digest, 32 bytes.
        endings: how each party ended; ``"done"`` if all went well.
        records: the true answers, if this was a simulation.
        seed: of the simulation, or None.
        withheld: whether the transcript does without it.
        transport: ``local``, ``memory``, ``tcp`` or ``tls``.
        messages, bytes: how much was sent.
        seconds: how long the run took.
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
            f"<Outcome: {self.variant.name}, {len(self.endings)} parties over {self.transport}, "
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

    def estimate_as(self, kind: type[E]) -> E:
        """The estimate, of a kind that is known.

        Raises:
            TypeError: it is of another kind.
        """
        if not isinstance(self.estimate, kind):
            raise TypeError(f"{self.estimate!r}: expected {kind.__name__}")
        return self.estimate

    @property
    def ledger(self) -> Ledger:
        """What the aggregator learned, from the transcript."""
        return self._read.ledger

    @functools.cached_property
    def alone(self) -> CoalitionFinding | None:
        """What the aggregator alone knows of secure sums; None if the variant has none."""
        return None if self._read.alone is None else self._read.alone.found()

    @property
    def completeness(self) -> Completeness:
        """Who took part, from the transcript."""
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
        alone = aggregator_alone(self.charter)
        if not settled(self.variant):
            heads = heads_of(self.transcript.entries())
            ledger.start(heads)
            if alone is not None:
                alone.start(heads)
        for step in steps(self.charter.codec, self.transcript.entries()):
            ledger.add(step)
            completeness.add(step)
            parts.add(step)
            if alone is not None:
                alone.add(step)
        return _Read(ledger.ledger(AGGREGATOR), completeness.completeness(), parts, alone)

    def audit_reports(
        self,
        *,
        forms: Sequence[Literal["text", "json", "page"]] = ("text", "json", "page"),
        observer: PartyId = AGGREGATOR,
        trail: PartyId | None = None,
        coalition: Coalition | None = None,
        worst: int | None = None,
        delta: float = 1e-6,
        replay: bool = False,
        intervals: Intervals = USUAL,
    ) -> dict[str, str]:
        """What an audit of the transcript says, in each of these forms.

        Args:
            forms: as the terminal shows it, as JSON, and as a page of HTML.
            observer: whose knowledge to account for.
            trail: the party whose messages are to be shown one by one.
            coalition: who conspires.
            worst: how many parties conspire with the aggregator in the most damaging coalition.
            delta: the probability with which the tighter epsilon may not hold.
            replay: whether all parties are replayed, with the records of the simulation.
            intervals: of the estimate: their level, and what they are about.

        Raises:
            SurveyError: somebody named is not on the roster, or there is nothing to replay.
        """
        from protocol.audit.disclosure import disclosed_by_seed
        from scenarios.report.judging import judge
        from scenarios.report.page.audit import audit_page
        from scenarios.report.statement.statement import statement
        from scenarios.report.terminal.plain import printed
        from scenarios.report.terminal.statement import statement_report
        from scenarios.report.values import judged_values

        disclosed: Iterable[Disclosure] = ()
        if replay:
            if self.records is None or self.seed is None:
                raise SurveyError("only a simulation can be replayed without its members")
            disclosed = disclosed_by_seed(self.charter, self.seed, self.records)
        judged, rounds = judge(
            self.transcript,
            type(self.variant),
            file="transcript.svt",
            observer=observer,
            trail=trail,
            coalition=coalition,
            worst=worst,
            delta=delta,
            digest=self.digest,
            disclosed=disclosed,
            intervals=intervals,
            with_rounds=True,
        )
        makes: dict[str, Callable[[], str]] = {
            "text": lambda: printed(statement_report(statement(judged))),
            "json": lambda: json.dumps(as_json(judged_values(judged))),
            "page": lambda: audit_page(judged, rounds),
        }
        return {form: makes[form]() for form in forms}

    @property
    def trouble(self) -> dict[str, int]:
        """The number of parties that did not end well, by reason."""
        completeness = self.completeness
        # The worst that is known of a party wins.
        became = {
            name: "its answer was not counted" for c in completeness.closings for name in c.missing
        }
        became |= {name: ending for name, ending in self.endings.items() if ending != DONE}
        # Of a lost worker the record knows that it was lost, an ending also why.
        became |= {
            name: reason
            for name, reason in completeness.departed.items()
            if not (reason.startswith(LOST) and became.get(name, "").startswith(LOST))
        }
        return dict(Counter(became.values()).most_common())

    def summary(
        self,
        estimate: Estimate | None = None,
        projection: Projection = "none",
        intervals: Intervals = USUAL,
    ) -> dict[str, Any]:
        """What ``result.json`` holds, without the scenario's own keys.

        Args:
            estimate: what to report, by default that of the published result.
            projection: applied to its tables.
            intervals: their level, and what they are about.
        """
        reported = self.estimate if estimate is None else estimate
        values: dict[str, Any] = {
            "variant": self.variant.name,
            "seed": WITHHELD if self.withheld else self.seed,
            "transport": self.transport,
            **({"attempt": self.charter.attempt} if self.seed is None else {}),
            "respondents": self.estimate.n if self.records is None else len(self.records),
            "parties": len(self.endings),
            "counted": self.counted,
            "rounds": [
                {
                    "kind": closing.kind,
                    "round": None if closing.round == NO_ROUND else closing.round,
                    "awaited": closing.awaited,
                    "counted": closing.counted,
                    "rate": closing.response.rate,
                }
                for closing in self.completeness.closings
            ],
            "response": response_values(self.completeness.response),
            **reported_values(
                reported, self.records, projection, intervals, respondents=self.estimate.n
            ),
            **design_values(*self.design),
            **self._announced_values(),
            "traffic": {"messages": self.messages, "bytes": self.bytes},
            "transcript": {
                "path": str(self.transcript.path) if self.transcript.path else None,
                "digest": self.digest.hex(),
            },
            "privacy": {
                "verdict": self._protection,
                **privacy_values(self.ledger),
                "claims": claims_values(self.variant.claims()),
            },
            "trouble": self.trouble,
            "seconds": round(self.seconds, 3),
        }
        plain: dict[str, Any] = as_json(values)
        return plain

    @property
    def _protection(self) -> str:
        """How well the design protects people."""
        return on_privacy(self.ledger, alone=self.alone, checks=()).word

    def _announced_values(self) -> dict[str, Any]:
        analysis = self.charter.analysis
        if analysis is None:
            return {}
        tables = analysis.tables_of(self.estimate)
        return {"analysis": announced_values(analysis, tables, self.estimate)}

    def _repr_html_(self) -> str:
        title = html.escape(self.variant.survey.title)
        return (
            f"<h4>{title}: {html.escape(self.variant.name)}</h4>"
            f"<p>estimated from {self.counted} of {len(self.endings)} parties, over "
            f"{html.escape(self.transport)}; {self.messages} messages, {self.bytes} bytes; "
            f"epsilon {self.ledger.record_epsilon:.4g} per record; "
            f"digest <code>{self.digest.hex()}</code></p>{self.estimate._repr_html_()}"
        )


def reported_values(
    reported: Estimate,
    given: Records | None,
    projection: Projection,
    intervals: Intervals,
    *,
    respondents: int,
) -> dict[str, Any]:
    """An estimate as ``result.json`` has it, and beside it the truth where that is known.

    Args:
        reported: the estimate.
        given: the true answers.
        projection: applied to its tables.
        intervals: their level, and what they are about.
        respondents: how many it is of.
    """
    marginals = reported.marginals(projection)
    pairs = reported.pairs(projection)
    return {
        "estimate": {
            "respondents": respondents,
            "projection": projection,
            "marginals": {name: _labelled(t, t.values) for name, t in marginals.items()},
            "standard_errors": {
                name: None if t.standard_errors is None else _labelled(t, t.standard_errors)
                for name, t in marginals.items()
            },
            **(
                {"population_errors": _population_errors(marginals)}
                if intervals.about == "population"
                else {}
            ),
            "intervals": interval_values(reported, intervals, marginals.values(), pairs),
            **_fit_values([*marginals.values(), *pairs]),
            "pairs": [_pair_values(table, intervals) for table in pairs],
            **({"means": means_values(reported)} if reported.attribute_means() else {}),
        },
        **({} if given is None else _compared(reported, given, marginals, pairs)),
    }


def _pair_values(table: Table, intervals: Intervals) -> dict[str, Any]:
    return {
        "attributes": table.names,
        "categories": table.categories,
        "table": table.values,
        "standard_errors": table.standard_errors,
        **(
            {"population_errors": table.population_errors}
            if intervals.about == "population"
            else {}
        ),
    }


def _fit_values(tables: Sequence[Table]) -> dict[str, Any]:
    """How far EM came in the worst of some tables; empty if none was fitted."""
    fits = [table.fit for table in tables if table.fit]
    if not fits:
        return {}
    return {
        "em": {
            "converged": all(fit.converged for fit in fits),
            "gap": max(fit.gap for fit in fits),
            "steps": max(fit.steps for fit in fits),
        }
    }


def _compared(
    reported: Estimate, given: Records, marginals: Mapping[str, Table], pairs: Sequence[Table]
) -> dict[str, Any]:
    """The true tables and means, and their distances from the estimates."""
    records, true_means = reported.recoded(given), reported.true_means(given)
    true_marginals = {name: records.distribution([name]) for name in marginals}
    true_pairs = [records.distribution(table.names) for table in pairs]
    pairs_tv = [float(total_variation(t.values, x)) for t, x in zip(pairs, true_pairs, strict=True)]
    return {
        "truth": {
            "marginals": {
                name: _labelled(marginals[name], values) for name, values in true_marginals.items()
            },
            "pairs": [
                {"attributes": t.names, "table": x} for t, x in zip(pairs, true_pairs, strict=True)
            ],
            **({"means": dict(true_means)} if true_means else {}),
        },
        "error": {
            "marginals_tv": {
                name: float(total_variation(table.values, true_marginals[name]))
                if np.isfinite(table.values).all()
                else None
                for name, table in marginals.items()
            },
            "pairs_tv": float(np.mean(pairs_tv)) if pairs_tv else None,
            **(
                {
                    "means": {
                        name: abs(found.value - true_means[name])
                        for name, found in reported.attribute_means().items()
                    }
                }
                if true_means
                else {}
            ),
        },
    }


def _population_errors(marginals: Mapping[str, Table]) -> dict[str, dict[str, float] | None]:
    return {
        name: None if t.population_errors is None else _labelled(t, t.population_errors)
        for name, t in marginals.items()
    }


def _labelled(table: Table, values: NDArray[np.float64]) -> dict[str, float]:
    return dict(zip(table.categories[0], values.tolist(), strict=True))
