"""Ways to ask a survey, ranked by the predicted error of the wanted tables."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias, get_args

from protocol.errors import ProtocolError, UsageError
from protocol.estimators.inference.laws import About
from protocol.estimators.usefulness import MarginOfError, Usefulness, least_exact
from protocol.session.variant import Variant
from protocol.surveys.survey import Survey
from protocol.variants import BUILT_IN
from scenarios.designing.assumed import Shares
from scenarios.designing.candidates import Candidate, Wanted, candidates
from scenarios.designing.costs import (
    Dropouts,
    Traffic,
    epsilon_at,
    reckon_traffic,
    survives_dropouts,
    trust_in,
)
from scenarios.designing.predicting import NotEstimatedError, Prediction, predict
from scenarios.designing.simulating import MOST_RUNS, RUNS, Simulation
from scenarios.designing.targets import Target
from scenarios.running.making import ANSWERED_BY_PAGES

Rests: TypeAlias = Literal["nothing", "honest", "no bound"]
"""Assumption behind an epsilon; only ways with the same assumption are compared."""

RESTS: tuple[Rests, ...] = get_args(Rests)

FEW, FAR = 3, 2.0
"""A simulated error needs no precise rank if it exceeds ``FAR`` times the ``FEW`` smallest ones."""


class Setup(NamedTuple):
    """Purpose of a design.

    Args:
        survey: the survey.
        target: the wanted tables.
        respondents: number of respondents.
        parties: number of parties that hold them.
        dropout: share of parties that drop out.
        shares: assumptions about the answers.
        about: subject of the estimates: the counted respondents, or a population.
        delta: probability with which an epsilon at a delta may fail.
        runs: maximum number of simulated runs of a variant without a closed form.
    """

    survey: Survey
    target: Target
    respondents: int
    parties: int
    shares: Shares
    dropout: float = 0.0
    about: About = "respondents"
    delta: float = 1e-6
    runs: int = MOST_RUNS

    @property
    def answering(self) -> int:
        """Expected number of counted respondents."""
        return max(1, round(self.respondents * (1 - self.dropout)))

    @property
    def staying(self) -> int:
        """Expected number of parties that answer."""
        return max(1, round(self.parties * (1 - self.dropout)))


class Row(NamedTuple):
    """A way to ask that applies.

    Args:
        epsilon: the allowed epsilon, in nats.
        candidate: the variant with its parameters.
        prediction: its predicted error.
        spent: largest cost of a respondent's reports, whoever conspires; infinite for counts.
        at_delta: largest cost at a delta; None if unknown.
        traffic: size of the messages; None if it could not be measured.
        trusted: words on the trust that it needs.
        dropouts: whether it succeeds if parties drop out.
        by_page: whether people can answer on a web page.
        best: whether it has the smallest error among the setups of this variant with the same
            assumption.
        simulation: its simulated runs; None with a closed form.
        certain: whether its rank is certain despite the randomness of simulated runs.
    """

    epsilon: float
    candidate: Candidate
    prediction: Prediction
    spent: float
    at_delta: float | None
    traffic: Traffic | None
    trusted: str
    dropouts: Dropouts
    by_page: bool
    best: bool = True
    simulation: Simulation | None = None
    certain: bool = True

    @property
    def cost(self) -> float:
        """A respondent's epsilon under its assumption; infinite for exact counts.

        It is the allowed epsilon if the two differ by less than a thousandth.
        """
        cost = self.spent if self.candidate.among is None else self.candidate.among.epsilon
        return self.epsilon if math.isclose(cost, self.epsilon, rel_tol=1e-3) else cost

    @property
    def least_exact(self) -> MarginOfError | None:
        """The least useful table of the target; None if no errors of tables are known."""
        variant = self.candidate.variant
        margins = () if variant is None else self.prediction.margins(variant.survey)
        return least_exact(margins) if margins else None

    @property
    def usefulness(self) -> Usefulness | None:
        """Usefulness of the least useful table."""
        return None if self.least_exact is None else self.least_exact.word

    @property
    def rests_on(self) -> Rests:
        """Assumption behind its cost."""
        if self.candidate.among is not None:
            return "honest"
        return "nothing" if math.isfinite(self.spent) else "no bound"


class Designed(NamedTuple):
    """Result of designing.

    Args:
        setup: the purpose.
        rows: all ways, sorted by epsilon, by assumption in the order of ``RESTS``, by robustness to
            dropouts, and by error.
        refused: reasons why variants do not apply, by epsilon and name.
    """

    setup: Setup
    rows: tuple[Row, ...]
    refused: dict[tuple[float, str], str]


Maker = Callable[[Wanted], Candidate]
"""Function that sets up a user's own variant."""


def rank_designs(
    setup: Setup,
    epsilons: Sequence[float],
    *,
    own: Maker | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> Designed:
    """Rank every way to ask, for each epsilon.

    Args:
        epsilons: allowed costs of a respondent's reports, in nats.
        own: sets up the user's own variant.
        progress: called with the number of finished candidates, and their total.

    Raises:
        UsageError: no variant applies at any epsilon.
    """
    rows: list[Row] = []
    refused: dict[tuple[float, str], str] = {}
    traffic: dict[str, Traffic | None] = {}
    every = [
        (epsilon, each) for epsilon in epsilons for each in _list_candidates(setup, epsilon, own)
    ]
    for done, (epsilon, candidate) in enumerate(every):
        progress(done, len(every))
        try:
            with _refusing(candidate):
                rows.append(make_row(setup, epsilon, candidate, traffic))
        except _RefusedError as error:
            refused[epsilon, candidate.name] = str(error)
    rows = _settle_places(setup, rows, refused)
    progress(len(every), len(every))
    if not rows:
        raise UsageError(
            f"no variant estimates {setup.target.says}: "
            + "; ".join(dict.fromkeys(refused.values()))
        )
    return Designed(setup, tuple(_mark_best(rows)), refused)


class _RefusedError(Exception):
    """Reason why a variant is left out."""


@contextlib.contextmanager
def _refusing(candidate: Candidate) -> Iterator[None]:
    """Turn failures of a user's own variant into a refusal."""
    try:
        yield
    except _RefusedError:
        raise
    except Exception as error:
        if candidate.family in BUILT_IN:
            raise
        raise _RefusedError(f"its code fails: {type(error).__name__}: {error}") from error


def _list_candidates(setup: Setup, epsilon: float, own: Maker | None) -> list[Candidate]:
    wanted = Wanted(setup.survey, epsilon, setup.target, setup.parties, setup.dropout, setup.delta)
    found = candidates(wanted)
    return [*found] if own is None else [*found, own(wanted)]


def make_row(
    setup: Setup,
    epsilon: float,
    candidate: Candidate,
    known: dict[str, Traffic | None] | None = None,
) -> Row:
    """Row on one way to ask.

    Args:
        known: traffic of earlier candidates by name; this one's is added.

    Raises:
        _RefusedError: the candidate does not apply.
    """
    variant = candidate.variant
    if variant is None:
        raise _RefusedError(candidate.why)
    try:
        prediction, simulation = predict_error(setup, variant)
    except NotEstimatedError as error:
        raise _RefusedError(f"it does not estimate {setup.target.says}: {error}") from error
    except (ProtocolError, ValueError) as error:
        raise _RefusedError(str(error)) from error
    known = {} if known is None else known
    if candidate.name not in known:
        known[candidate.name] = _traffic(setup, variant)
    try:
        dropouts = survives_dropouts(variant, setup.parties, setup.dropout)
    except ValueError as error:
        raise _RefusedError(str(error)) from error
    return Row(
        epsilon=epsilon,
        candidate=candidate,
        prediction=prediction,
        spent=variant.most(),
        at_delta=epsilon_at(variant, setup.delta, setup.shares),
        traffic=known[candidate.name],
        trusted=trust_in(variant, setup.parties, candidate.among),
        dropouts=dropouts,
        by_page=candidate.family in ANSWERED_BY_PAGES and setup.parties == setup.respondents,
        simulation=simulation,
    )


def predict_error(setup: Setup, variant: Variant) -> tuple[Prediction, Simulation | None]:
    """The error of a variant, from closed forms or else from simulated runs, with these.

    Raises:
        NotEstimatedError: the variant does not estimate one of the target's tables.
        ProtocolError, ValueError: the variant cannot be run in this setup.
    """
    target, shares, n = setup.target, setup.shares, setup.answering
    found = predict(variant, n, target, shares, about=setup.about, parties=setup.staying)
    if found is not None:
        return found, None
    simulation = Simulation(variant, n, target, shares, setup.about)
    return simulation.run(min(RUNS, setup.runs)), simulation


def _settle_places(
    setup: Setup, rows: Sequence[Row], refused: dict[tuple[float, str], str]
) -> list[Row]:
    """Rows with enough simulated runs to rank them.

    Args:
        refused: variants whose code fails in a later run are added.
    """
    placed: list[Row] = []
    for _, group in itertools.groupby(sorted(rows, key=_order), key=lambda row: _order(row)[:-1]):
        placed += _placed_among([*group], setup, refused)
    return placed


def _placed_among(
    rows: list[Row], setup: Setup, refused: dict[tuple[float, str], str]
) -> list[Row]:
    """The same for rows that are ranked among each other."""
    while row := next((row for row in rows if _is_open(row, rows, setup.runs)), None):
        rows.remove(row)
        done = row.prediction.runs
        try:
            with _refusing(row.candidate):
                assert row.simulation is not None
                found = row.simulation.run(min(setup.runs, done + max(2, done // 2)))
                rows.append(row._replace(prediction=found))
        except _RefusedError as error:
            refused[row.epsilon, row.candidate.name] = str(error)
    return [row._replace(certain=not _mistakable(row, rows)) for row in rows]


def _is_open(row: Row, rows: Sequence[Row], most: int) -> bool:
    """Check whether more runs are worth their time because the row's rank may still change."""
    if not 0 < row.prediction.runs < most or row.rests_on == "no bound":
        return False
    others = sorted(each.prediction.interval[1] for each in rows if each is not row)
    few = others[:FEW]
    hopeless = bool(few) and row.prediction.interval[0] > FAR * few[-1]
    return not hopeless and _mistakable(row, rows)


def _mistakable(row: Row, rows: Sequence[Row]) -> bool:
    """Check whether another row's error lies within the interval of this simulated one."""
    if not any(each.prediction.runs for each in rows):
        return False
    low, high = row.prediction.interval
    return any(
        low <= each.prediction.interval[1] and each.prediction.interval[0] <= high
        for each in rows
        if each is not row and (row.prediction.runs or each.prediction.runs)
    )


def _traffic(setup: Setup, variant: Variant) -> Traffic | None:
    try:
        return reckon_traffic(variant, setup.respondents, setup.parties, setup.shares)
    except (ProtocolError, ValueError):
        return None


def _mark_best(rows: Sequence[Row]) -> list[Row]:
    found: list[Row] = []
    seen: set[tuple[float, Rests, str]] = set()
    for row in sorted(rows, key=_order):
        family = row.epsilon, row.rests_on, row.candidate.family
        found.append(row._replace(best=family not in seen))
        seen.add(family)
    return found


def _order(row: Row) -> tuple[float, int, bool, float]:
    place = RESTS.index(row.rests_on)
    return row.epsilon, place, not row.dropouts.withstands, row.prediction.rmse
