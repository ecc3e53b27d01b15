"""The shares under which the reports that came in are likeliest: EM over blocks of any randomizer.

The iterations are those of Agrawal and Aggarwal (2001), known as iterative Bayesian update: every
report is attributed to the categories that it may come from, in proportion
to the present shares. Pairs of steps are extrapolated (SQUAREM, scheme S3 of Varadhan and Roland,
Simple and Globally Convergent Methods for Accelerating the Convergence of Any EM Algorithm, 2008),
and where that lowers the likelihood the plain steps are taken. So the likelihood never falls.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.randomizers.exact import Floats
from protocol.randomizers.mixing import Mixing

GAP = 0.01
"""The most that the log-likelihood of all reports may be below its maximum, in nats."""

STEPS = 10_000
"""The most steps of EM."""

MAX_CELLS = 2**22
"""The most cells of a table, and of the attributes that were randomized with its own."""

# The least part of a share that an extrapolation leaves, since a share of 0 would stay 0.
_LEFT = 1e-2

# The factor by which an extrapolation may become longer, or must become shorter.
_LONGER = 4.0


class Reported(NamedTuple):
    """Counts of reports on some attributes, with their law.

    Args:
        groups: for each axis of the counts, the attributes of its reports.
        counts: at least 0, one axis per group; of weighted reports they need not be whole.
        mixings: of the groups' reports, which are independent given the answers.
    """

    groups: tuple[tuple[str, ...], ...]
    counts: NDArray[np.int64] | Floats
    mixings: tuple[Mixing, ...]


class Fit(NamedTuple):
    """End of EM.

    Args:
        log_likelihood: of the reports, in nats, up to a constant; with the logarithm of the prior
            if there is one.
        gap: how far it may be below its maximum at most. It is concave, so the largest slope
            towards a single category, less the slope towards the shares themselves, bounds that
            (Lindsay 1983).
        steps: number of computations of the likelihood and a step.
        converged: whether the gap is as small as was asked for.
    """

    log_likelihood: float
    gap: float
    steps: int
    converged: bool


def likeliest(
    reported: Sequence[Reported],
    asked: Mapping[str, int],
    *,
    extra: Mapping[str, int] | None = None,
    prior: float = 1.0,
    gap: float = GAP,
    at_most: int = STEPS,
) -> tuple[Floats, Fit]:
    """The shares that maximize the likelihood, or with a prior the posterior density.

    Respondents count as drawn from a population with these shares. Likelihoods of several sets of
    reports are multiplied. That is exact for different respondents. For the same ones it is a
    composite likelihood, which also has its maximum at the truth, but not the right curvature. EM
    begins with equal shares.

    The shares are biased: none is negative, so rare cells come out too large on average and common
    ones too small. At a low keep probability many cells come out as 0. Tables that overlap are
    fitted separately and need not agree. There are no standard errors.

    Args:
        reported: at least one, with at least one report in all; their attributes are in ``asked``
            or in ``extra``.
        asked: the attributes of the table, each with its number of categories.
        extra: further attributes that were randomized together with these; they are summed over at
            the end.
        prior: the parameter of a Dirichlet distribution of the shares, the same for every cell of
            the table, at least 1. At 1 it is uniform. Above, it counts like ``prior - 1`` further
            respondents in each cell, with known answers.
        gap: where to stop, in nats, at least 0.
        at_most: the most steps, at least 1.

    Returns:
        Shares of at least 0 with a total of 1, one axis per attribute asked for; where EM stopped.

    Raises:
        ValueError: no report, one that no answer can give, too many cells, or a number out of
            range.
    """
    if not 1 <= prior < math.inf:
        raise ValueError(f"prior {prior}: expected a finite number of at least 1")
    if not 0 <= gap < math.inf or at_most < 1:
        raise ValueError(f"gap {gap}, at most {at_most} steps: expected at least 0 and 1")
    sizes = {**asked, **(extra or {})}
    cells = math.prod(sizes.values())
    if cells > MAX_CELLS:
        raise ValueError(f"EM over {cells:,} cells: expected at most {MAX_CELLS:,}")
    added = (prior - 1) * math.prod(asked.values()) / cells
    problem = _Problem([_Term(one, sizes) for one in reported], tuple(sizes.values()), added)
    shares, fit = _maximized(problem, gap=gap, at_most=at_most)
    summed = tuple(range(len(asked), len(sizes)))
    return np.ascontiguousarray(shares.sum(axis=summed)), fit


class _Term:
    """Log-likelihood of one set of reports."""

    def __init__(self, reported: Reported, sizes: Mapping[str, int]) -> None:
        names = list(sizes)
        flat = reported.counts.reshape(-1)
        self._places = np.flatnonzero(flat)
        self._counts = flat[self._places].astype(np.float64)
        self.n = float(self._counts.sum())
        grouped = [names.index(name) for group in reported.groups for name in group]
        self._summed = tuple(place for place in range(len(names)) if place not in grouped)
        left = [place for place in range(len(names)) if place in grouped]
        self._order = [left.index(place) for place in grouped]
        self._back = np.argsort(self._order)
        self._grouped = [sizes[names[place]] for place in grouped]
        self._spread = [sizes[name] if place in grouped else 1 for place, name in enumerate(names)]
        cells = [math.prod(sizes[name] for name in group) for group in reported.groups]
        reports = reported.counts.shape
        self._mixings = [
            (mixing, (math.prod(reports[:axis]), -1, math.prod(cells[axis + 1 :])))
            for axis, mixing in enumerate(reported.mixings)
        ]
        self._weights = np.zeros(flat.shape)

    def at(self, shares: Floats) -> tuple[float, Floats]:
        """The log-likelihood, and its derivatives by every share."""
        mixed = shares.sum(axis=self._summed) if self._summed else shares
        mixed = mixed.transpose(self._order)
        for mixing, shape in self._mixings:
            mixed = mixing.apply(mixed.reshape(shape))
        law = mixed.reshape(-1)[self._places]
        if not law.all():
            raise ValueError("a report that no answer can give")
        slopes = self._weights
        slopes[self._places] = self._counts / law
        for mixing, shape in reversed(self._mixings):
            slopes = mixing.apply_transposed(slopes.reshape(shape))
        slopes = slopes.reshape(self._grouped).transpose(self._back).reshape(self._spread)
        return float(self._counts @ np.log(law)), slopes


class _Step(NamedTuple):
    """Likelihood at some shares, and the next step of EM."""

    shares: Floats
    value: float
    gap: float
    next: Floats


class _Problem:
    """A concave function of shares, and EM's steps towards its maximum."""

    def __init__(self, terms: Sequence[_Term], sizes: Sequence[int], added: float) -> None:
        self._terms = [term for term in terms if term.n]
        if not self._terms:
            raise ValueError("no reports: expected at least one")
        self._added = added
        self._total = math.fsum(term.n for term in terms) + added * math.prod(sizes)
        self.start = np.full(sizes, 1 / math.prod(sizes))
        self.steps = 0

    def step(self, shares: Floats) -> _Step:
        self.steps += 1
        value, slopes = self._terms[0].at(shares)
        for term in self._terms[1:]:
            found, slope = term.at(shares)
            value, slopes = value + found, slopes + slope
        if self._added:
            value += self._added * float(np.log(shares).sum())
            slopes = slopes + self._added / shares
        gap = max(float(slopes.max()) - self._total, 0.0)
        attributed = shares * slopes
        return _Step(shares, value, gap, attributed / attributed.sum())


def _maximized(problem: _Problem, *, gap: float, at_most: int) -> tuple[Floats, Fit]:
    """Maximize by pairs of EM steps, each with an extrapolation, until the gap is small."""

    def ends(step: _Step) -> bool:
        return step.gap <= gap or problem.steps >= at_most

    longest = 1.0
    here = problem.step(problem.start)
    while not ends(here):
        then = problem.step(here.next)
        if ends(then):
            here = then
            break
        once = then.shares - here.shares
        twice = then.next - then.shares - once
        bend = float(np.sum(twice**2))
        length = math.sqrt(float(np.sum(once**2)) / bend) if bend else 1.0
        length = min(max(length, 1.0), longest)
        if length == longest:
            longest *= _LONGER
        far = here.shares + 2 * length * once + length**2 * twice
        far = np.maximum(far, _LEFT * then.next)
        tried = problem.step(far / far.sum())
        if tried.value >= then.value:
            here = tried
        elif problem.steps < at_most:
            longest = max(length / _LONGER, 1.0)
            here = problem.step(then.next)
        else:
            here = then
    return here.shares, Fit(here.value, here.gap, problem.steps, here.gap <= gap)
