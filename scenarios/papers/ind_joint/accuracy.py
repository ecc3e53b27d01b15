"""Errors of RR-Ind and RR-Ind-Joint: measured on repeats, and where they meet."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from protocol.estimators.dependence.dependence import cramers_v
from protocol.estimators.independent import product_mean_squared_error
from protocol.estimators.joint import mean_squared_error
from protocol.randomizers import KeepUniform
from protocol.randomizers.exact import Floats
from protocol.surveys.records import Records
from protocol.variants import RRIndependent
from scenarios.papers.experiment import Asked
from scenarios.papers.laws import reported_pairs

Keeps: TypeAlias = tuple[KeepUniform, KeepUniform]

LARGEST_EPSILON = 60.0
"""Beyond it a keep probability is rounded to 1."""

_LEAST_BIAS = 1e-25
"""A squared bias that rounding errors alone can make."""


@dataclass(frozen=True, slots=True, eq=False)
class Reported:
    """A true table of two attributes, and tables of reports on it.

    Attributes:
        truth: shares, shape (r_1, r_2).
        keeps: the attributes' randomizers.
        shares: of the reports, shape (runs, r_1, r_2).
        random: whether they were drawn; of a single draw no standard error is known.
    """

    truth: Floats
    keeps: Keeps
    shares: Floats
    random: bool = True

    @classmethod
    def exact(cls, truth: Floats, keeps: Keeps, *, of: int | None = None) -> Reported:
        """Nothing is sampled: the one table of shares that is expected of the reports.

        Args:
            of: how many whole respondents it is rounded to, if it is.
        """
        shares = truth
        for axis, keep in enumerate(keeps):
            shares = keep.unmixing([keep.size], [0]).mixed(shares, axis)
        shares = shares if of is None else np.rint(of * shares) / of
        return cls(truth, keeps, shares[np.newaxis], random=False)

    @classmethod
    def asked(
        cls,
        asked: Asked[Any],
        records: Records,
        keeps: Mapping[str, KeepUniform],
        *,
        generator: np.random.Generator,
        parties: int | None = None,
        exact: bool = False,
    ) -> Reported:
        """Two attributes of records, randomized one by one.

        By messages; else ``exact``, or anew in every run.
        """
        names, (first, second) = tuple(keeps), keeps.values()
        counts = records.counts(names)
        if exact and not asked.live:
            return cls.exact(counts / len(records), (first, second))
        if asked.live:
            some = records.project(names)
            variant = RRIndependent(survey=some.survey, randomizers=(first, second))
            estimate = asked.simulate(variant, some, parties).estimate
            reports = estimate.source.counts.table((0, 1))[np.newaxis]
        else:
            both = (first.keep, second.keep)
            reports = reported_pairs(counts, both, generator, runs=asked.runs)
        return cls.counted(counts, (first, second), reports)

    @classmethod
    def counted(
        cls, counts: NDArray[np.int64], keeps: Keeps, reports: NDArray[np.int64]
    ) -> Reported:
        """True counts, and counts of reports in some runs, shape (runs, r_1, r_2)."""
        n = int(counts.sum())
        return cls(counts / n, keeps, reports / n)

    def joint(self) -> Floats:
        """RR-Ind-Joint in every run (Algorithm 3): both inverses applied to the reports' table."""
        return self._unmix(self._unmix(self.shares, 0), 1)

    def product(self) -> Floats:
        """RR-Ind in every run (Algorithm 2): the outer product of the estimated margins."""
        first = self._unmix(self.shares.sum(axis=2, keepdims=True), 0)
        second = self._unmix(self.shares.sum(axis=1, keepdims=True), 1)
        return first * second

    def _unmix(self, tables: Floats, attribute: int) -> Floats:
        keep = self.keeps[attribute]
        return keep.unmixing([keep.size], [0]).apply(tables, 1 + attribute)

    def errors(self) -> dict[str, Any]:
        """Each estimator's error per cell: mean squared (mse) and absolute (mae)."""
        found = {"rr_ind": self._away(self.product()), "rr_ind_joint": self._away(self.joint())}
        return {f"{name}_{of}": found[name][of] for of in ("mse", "mae") for name in found}

    def measures(self, tables: Floats) -> dict[str, Any]:
        """Measures of some tables, one per run: Cramer's V after clip-and-rescale, and errors."""
        v = np.array([cramers_v(np.maximum(table, 0.0)) for table in tables])
        return {"cramers_v": v if self.random else v[0], **self._away(tables)}

    def _away(self, tables: Floats) -> dict[str, Any]:
        """Squared and absolute errors: arrays over the runs, or numbers for exact tables."""
        away = tables - self.truth
        found = {"mse": np.mean(away**2, axis=(1, 2)), "mae": np.mean(np.abs(away), axis=(1, 2))}
        return found if self.random else {name: values[0] for name, values in found.items()}


# Where the expected squared errors are equal. RR-Ind-Joint is unbiased and its error falls like
# 1/n; that of RR-Ind is smaller at first and then stays at the bias.


def joint_wins(truth: Floats, keeps: Keeps, n: int) -> bool:
    """Check whether RR-Ind-Joint's expected squared error is the smaller one, in closed form.

    Beyond n = 1 it is so for all larger n and all larger keep probabilities too: with S_j the sum
    of attribute j's variances times n and P_j the sum of its squared true shares, the difference is
    ``S_1 (1 - P_2)/n + S_2 (1 - P_1)/n + S_1 S_2 (1/n - 1/n**2)``, less the squared bias.
    """
    product = product_mean_squared_error(truth, keeps, n)
    if product.squared_bias * truth.size < _LEAST_BIAS:
        return False
    return mean_squared_error(keeps, n) < product.total


def break_even_n(truth: Floats, keeps: Keeps) -> float:
    """Number of reports from which RR-Ind-Joint is better, at least 2; infinite for independent
    data.

    Args:
        truth: the true shares, shape (r_1, r_2).
        keeps: the attributes' randomizers.
    """
    bias = product_mean_squared_error(truth, keeps, 1).squared_bias
    if bias * truth.size < _LEAST_BIAS:
        return math.inf
    low, high = 1, math.ceil(mean_squared_error(keeps, 1) / bias) + 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if joint_wins(truth, keeps, middle) else (middle, high)
    return float(high)


def break_even_epsilon(truth: Floats, keeps_at: Callable[[float], Keeps], n: int) -> float:
    """Epsilon from which RR-Ind-Joint is better, to 1e-9; infinite for independent data.

    Args:
        truth: the true shares, shape (r_1, r_2).
        keeps_at: the randomizers at an epsilon; their keep probabilities rise with it.
        n: the number of reports, at least 2.
    """
    low, high = 0.0, LARGEST_EPSILON
    if not joint_wins(truth, keeps_at(high), n):
        return math.inf
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (low, middle) if joint_wins(truth, keeps_at(middle), n) else (middle, high)
    return high


def break_even_v(truth_at: Callable[[float], Floats], keeps: Keeps, n: int) -> float:
    """Cramer's V from which RR-Ind-Joint is better; infinite if for none up to 1.

    Args:
        truth_at: the true shares at a V from 0 to 1; their margins are the same for all of them
            and their distance from the product of these is proportional to V.
        keeps: the attributes' randomizers.
        n: the number of reports.
    """
    at_one = product_mean_squared_error(truth_at(1.0), keeps, n)
    excess = mean_squared_error(keeps, n) - at_one.variance
    v = math.sqrt(max(0.0, excess) / at_one.squared_bias)
    return v if v <= 1 else math.inf


def readable(number: float) -> str:
    """A break-even point for a note: a whole number in full, another with three digits."""
    if math.isinf(number):
        return "no finite value"
    return f"{int(number):,}" if number == int(number) else f"{number:.3g}"
