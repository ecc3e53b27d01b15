"""Runs that can be audited in every form, as the contract of a variant asks of its executors."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

from parties.keeping.record_names import TRANSCRIPT
from protocol.accounting.spending import DELTA
from protocol.audit.coalition.coalition import Observer, parse_coalition
from protocol.audit.disclosure import Disclosure, disclosed_by_seed
from protocol.errors import SurveyError
from protocol.estimators.inference.intervals import USUAL, Intervals
from protocol.messages import Message, PartyId
from protocol.session.variant import Variant
from protocol.surveys.records import Records
from scenarios.report.page.audit import audit_page
from scenarios.report.terminal.statement import statement_text
from scenarios.report.values import statement_values
from scenarios.running.outcomes import Outcome
from scenarios.running.simulation import TRANSPORTS, TransportName, simulate
from scenarios.statement.audits.audit import statement
from scenarios.statement.audits.judging import Asked, judge


@dataclass(frozen=True, slots=True)
class AuditedRun:
    """A run, with its audit in every form."""

    outcome: Outcome[Variant]

    @property
    def digest(self) -> bytes:
        """The canonical digest of the transcript."""
        return self.outcome.digest

    @property
    def result(self) -> Message:
        """Message that the aggregator published."""
        return self.outcome.result

    def audit_reports(
        self,
        *,
        forms: Sequence[Literal["text", "json", "page"]] = ("text", "json", "page"),
        observer: Observer | None = None,
        trail: PartyId | None = None,
        worst: int | None = None,
        delta: float = DELTA,
        replay: bool = False,
        intervals: Intervals = USUAL,
    ) -> dict[str, str]:
        """Audit the transcript, and report in each of these forms.

        Args:
            forms: text of a terminal, JSON, and an HTML page.
            observer: the observer to account for.
            trail: the party whose messages are to be shown one by one.
            worst: number of parties in the most damaging coalition with the aggregator.
            delta: the probability with which the tighter epsilon may not hold.
            replay: whether all parties are replayed, with the records of the simulation.

        Raises:
            SurveyError: a name is not on the roster, or there is nothing to replay.
        """
        outcome = self.outcome
        disclosed: Sequence[Disclosure] = ()
        if replay:
            if outcome.records is None or outcome.seed is None:
                raise SurveyError("only a simulation can be replayed without its members")
            found = disclosed_by_seed(outcome.charter, outcome.seed, outcome.records)
            disclosed = tuple(found)
        judged, rounds = judge(
            outcome.transcript,
            type(outcome.variant),
            Asked(
                observer=None if observer is None else parse_coalition(observer),
                trail=trail,
                worst=worst,
                delta=delta,
                digest=outcome.digest,
                disclosed=disclosed,
                intervals=intervals,
                rounds=True,
            ),
            file=TRANSCRIPT,
        )
        said = statement(judged)
        makes: dict[str, Callable[[], str]] = {
            "text": lambda: statement_text(said),
            "json": lambda: json.dumps(statement_values(said)),
            "page": lambda: audit_page(judged, rounds),
        }
        return {form: makes[form]() for form in forms}


def _execute(
    transport: TransportName, variant: Variant, records: Records, **options: Any
) -> AuditedRun:
    return AuditedRun(simulate(variant, records, transport=transport, **options))


EXECUTORS: Mapping[str, Callable[..., AuditedRun]] = MappingProxyType(
    {name: partial(_execute, name) for name in TRANSPORTS}
)
"""``simulate`` over each transport, by its name, for the contract of a variant."""
