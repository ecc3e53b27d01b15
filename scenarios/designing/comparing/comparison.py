"""Comparison of variants on a user's own records: measured and predicted errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from protocol.crypto.randomness import Stream, secret_of
from protocol.errors import UsageError
from protocol.estimators.projection import Projection
from protocol.session.variant import Variant
from protocol.simulation.mapping import Map, one_by_one
from protocol.surveys.records import Records
from scenarios.designing.assumed import Given
from scenarios.designing.candidates import Candidate
from scenarios.designing.predicting import NotEstimatedError, predict
from scenarios.designing.summing import AmongHonest
from scenarios.designing.targets import Target
from scenarios.designing.trying import (
    Missed,
    Piece,
    Setup,
    is_by_law,
    missed_in,
    split_runs,
)

EXACT_RUNS = 3
"""Number of runs of a variant that is predicted to have no error."""

CHANCE = 1e-4
"""Probability that a variant that errs as predicted is called different, in many runs. In 10 to 100
it is less than one time in a thousand: that was measured of errors that are normal, in a single
cell, where their squares are most skewed.
"""

_NOTHING = 1e-9
"""An error so small is the rounding of none."""


class Figure(NamedTuple):
    """A mean over the runs, and its standard error; NaN where that is unknown."""

    value: float
    error: float


class Measured(NamedTuple):
    """A variant at an epsilon.

    Args:
        variant: the variant's name as in ``Candidate``.
        epsilon: limit on the cost of a respondent's reports.
        chosen: its parameters in words.
        why: why it was not run; empty if it was, and all below says nothing if not.
        among: the honest parties that its epsilon rests on; None if it holds whoever conspires.
        bounded: whether an epsilon bounds it, whoever conspires.
        by_law: whether no messages were sent.
        runs: number of runs.
        failed: number of runs without an estimate, as too few parties answered.
        predicted: the error that its own closed form says it has; None without a closed form.
        raw: the root mean squared error of the raw shares; None if no run gave an estimate.
        projected: the error of the projected shares.
        held: share of intervals that contain the true share.
        unknown: the share of the cells whose interval is unknown.
    """

    variant: str
    epsilon: float
    chosen: str
    why: str = ""
    among: AmongHonest | None = None
    bounded: bool = True
    by_law: bool = False
    runs: int = 0
    failed: int = 0
    predicted: float | None = None
    raw: Figure | None = None
    projected: Figure | None = None
    held: Figure | None = None
    unknown: float = 0.0

    @property
    def ratio(self) -> float | None:
        """Measured by predicted; None where either is unknown, or 0 is predicted."""
        if self.raw is None or not self.predicted:
            return None
        return self.raw.value / self.predicted

    @property
    def apart(self) -> float | None:
        """Excess of measured over predicted in Monte Carlo errors; None if unknown.

        It compares logarithms, as squares over few runs are more skewed.
        """
        if self.raw is None or self.predicted is None:
            return None
        value, error = self.raw
        if abs(value - self.predicted) < _NOTHING:
            return 0.0
        if not error or not value or not self.predicted:
            return math.copysign(math.inf, value - self.predicted)
        return None if math.isnan(error) else math.log(value / self.predicted) * value / error

    @property
    def differs(self) -> bool:
        """True if measured and predicted are further apart than chance explains.

        By Student's t, for of few runs the Monte Carlo error is uncertain too.
        """
        from scipy.special import stdtrit

        apart, runs = self.apart, self.runs - self.failed
        return apart is not None and abs(apart) > stdtrit(max(runs - 1, 1), 1 - CHANCE / 2)

    @property
    def is_exact(self) -> bool:
        """True if the predicted error is 0."""
        return self.predicted is not None and self.predicted < _NOTHING

    @property
    def simulated(self) -> str:
        """Way in which its surveys were simulated; empty if there were none."""
        return "" if self.why else "by law" if self.by_law else "by messages"


class Comparison(NamedTuple):
    """Result of a comparison.

    Args:
        title: the survey's title.
        respondents: number of respondents.
        target: tables with measured errors.
        setup: setup of the runs.
        measured: a result for each variant and epsilon.
    """

    title: str
    respondents: int
    target: Target
    setup: Setup
    measured: tuple[Measured, ...]


class Compared(NamedTuple):
    """Subject of a comparison.

    Args:
        epsilon: limit on the cost of a respondent's reports.
        candidate: a variant with its parameters, or why there is none.
    """

    epsilon: float
    candidate: Candidate


def compare(
    compared: Sequence[Compared],
    records: Records,
    target: Target,
    *,
    runs: int,
    seed: int,
    parties: int,
    dropout: float = 0.0,
    projection: Projection = "none",
    carried: Map = one_by_one,
) -> Comparison:
    """Measure the errors of variants, in runs on known records.

    A candidate that is the same at several epsilons, such as an exact sum, is run once.

    Args:
        compared: variants with their parameters.
        records: records of all respondents.
        target: tables with measured errors.
        runs: number of runs of each variant at each epsilon.
        seed: every run's seed follows from it.
        parties: number of parties, where messages are sent or parties drop out.
        dropout: the probability with which a party vanishes before it answers.
        projection: projection of further tables to measure next to the raw ones.
        carried: carries out the runs.

    Raises:
        ProtocolError: a run fails without dropouts.
        UsageError: no variant applies, an estimate does not have the tables, or as of the sweep.
    """
    setup = Setup(tables=target.tables, parties=parties, dropout=dropout, projection=projection)
    cases: list[_Case] = []
    for each in compared:
        variant = each.candidate.variant
        if variant is not None and _find_case(variant, cases) is None:
            stream = Stream(secret_of(seed)).derive(f"compared {len(cases)}")
            cases.append(_plan_case(variant, records, target, setup, runs, stream))
    if all(case.why for case in cases):
        first = _measure(compared[0], cases)
        raise UsageError(f"none of the variants applies; {first.variant}: {first.why}")
    found = iter(carried(missed_in, [piece for case in cases for piece in case.pieces]))
    for case in cases:
        case.missed = [run for _ in case.pieces for run in next(found)]
    return Comparison(
        title=records.survey.title,
        respondents=len(records),
        target=target,
        setup=setup,
        measured=tuple(_measure(each, cases) for each in compared),
    )


@dataclass(slots=True, kw_only=True)
class _Case:
    """A variant with its parameters, and its runs.

    Attributes:
        why: why it is not run; empty if it is.
        missed: errors of each run, once they are done.
    """

    variant: Variant
    why: str = ""
    predicted: float | None = None
    by_law: bool = False
    pieces: list[Piece] = field(default_factory=list)
    missed: list[Missed] = field(default_factory=list)


def _find_case(variant: Variant, cases: Sequence[_Case]) -> _Case | None:
    return next((case for case in cases if case.variant == variant), None)


def _plan_case(
    variant: Variant, records: Records, target: Target, setup: Setup, runs: int, stream: Stream
) -> _Case:
    stays = 1 - setup.dropout
    answered, staying = (max(1, round(stays * each)) for each in (len(records), setup.parties))
    try:
        prediction = predict(variant, answered, target, Given(records), parties=staying)
    except NotEstimatedError as error:
        return _Case(variant=variant, why=str(error))
    expected = None if prediction is None else prediction.rmse
    exact = expected is not None and expected < _NOTHING
    seeds = stream.integers(2**63, min(runs, EXACT_RUNS) if exact else runs).tolist()
    by_law = is_by_law(variant, answered)
    return _Case(
        variant=variant,
        predicted=expected,
        by_law=by_law,
        pieces=split_runs(variant, records, setup, by_law=by_law, seeds=seeds),
    )


def _measure(compared: Compared, cases: Sequence[_Case]) -> Measured:
    candidate = compared.candidate
    said = Measured(
        candidate.name, compared.epsilon, candidate.chosen, candidate.why, candidate.among
    )
    case = None if candidate.variant is None else _find_case(candidate.variant, cases)
    if case is None or case.why:
        return said if case is None else said._replace(why=case.why)
    done = [run for run in case.missed if not run.failed]
    projected = [run.projected for run in done if run.projected is not None]
    known = [run for run in done if run.known]
    cells = sum(run.cells for run in done)
    return said._replace(
        bounded=math.isfinite(case.variant.most()),
        by_law=case.by_law,
        runs=len(case.missed),
        failed=len(case.missed) - len(done),
        predicted=case.predicted,
        raw=_root([run.raw for run in done]),
        projected=_root(projected),
        held=_mean([run.held / run.known for run in known]),
        unknown=1 - sum(run.known for run in done) / cells if cells else 0.0,
    )


def _mean(values: Sequence[float]) -> Figure | None:
    if not values:
        return None
    spread = np.std(values, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return Figure(float(np.mean(values)), float(spread))


def _root(squares: Sequence[float]) -> Figure | None:
    """The square root of the mean over the runs; its error by the delta method."""
    found = _mean(squares)
    if found is None:
        return None
    value = math.sqrt(found.value)
    return Figure(value, found.error / (2 * value) if value else found.error)
