"""Overlapping tables made to agree, and tables of more attributes from them.

Randomized Response Block Aggregation (RRBA), section 4.3, as corrected. Tables estimated from
different groups of respondents give different marginals of the attributes they share.

The nearest tables that agree, or have given marginals, are known in closed form, whatever their
pattern of overlaps (``Overlaps.agreeing``); only non-negativity takes iterations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from protocol.estimators.overlapping.overlaps import Floats, Names, Overlaps, check_table, subsets
from protocol.surveys.survey import Survey

Agreement: TypeAlias = Literal["least-squares", "ipf"]
"""How tables are made to agree: at the least squared, or at the least relative, change."""
Extension: TypeAlias = Literal["least-squares", "maximum-entropy"]
"""Which table of more attributes is taken of all that have the known marginals."""

MAX_MARGINAL_CELLS = 2**22
"""The largest table that ``higher_marginal`` makes."""

ITERATIONS = 10_000
"""The most iterations by default: noisy tables need a few hundred at most."""

TOLERANCE = 1e-12
"""The residual at which ``reconcile`` stops by default, as a share of a table's total of 1."""

MARGINAL_TOLERANCE = 1e-9
"""Where ``higher_marginal`` stops by default: the tables that it is given have errors themselves,
and where they are 0, no table at all may fit them much better than they fit each other."""

# How far the tables that ``higher_marginal`` is given may differ.
_AGREEMENT = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Reconciled:
    """Tables that agree, and how well.

    Attributes:
        tables: as given, by the names of their attributes: at least 0, total 1, read-only.
        method: how they were made to agree.
        iterations: projections onto the tables that agree, or sweeps over all overlaps.
        residual: what iterations stopped at. Least squares: the share of a table, on average over
            the tables, that is negative or that would have to move for the optimum. IPF: as
            ``disagreement``.
        disagreement: the largest difference between two tables' common marginals, in any cell.
        converged: whether the residual is within the tolerance.
    """

    tables: Mapping[Names, Floats]
    method: Agreement
    iterations: int
    residual: float
    disagreement: float
    converged: bool

    def __repr__(self) -> str:
        return _shown(self, f"{len(self.tables)} tables", self.method)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class HigherMarginal:
    """A table of attributes of which only tables of fewer are known.

    Attributes:
        names: its attributes, an axis each.
        values: at least 0, total 1, read-only.
        method: which of all tables with the known marginals this is.
        iterations: projections or sweeps; 0 if one of the tables has all the attributes.
        residual: the largest difference to a known marginal, in any cell.
        converged: whether iterations ended before their limit. If not, the known marginals may be
            those of no table at all: that they agree with each other does not ensure one.
    """

    names: Names
    values: Floats
    method: Extension
    iterations: int
    residual: float
    converged: bool

    def __repr__(self) -> str:
        return _shown(self, ", ".join(self.names), self.method)


def _shown(result: Reconciled | HigherMarginal, what: str, method: str) -> str:
    end = "converged" if result.converged else "not converged"
    fit = f"{result.iterations} iterations, residual {result.residual:.3g}, {end}"
    return f"<{type(result).__name__}: {what}, {method}, {fit}>"


def disagreement(tables: Mapping[Names, Floats], survey: Survey) -> float:
    """The largest difference between common marginals of two tables, totals included, in any cell.

    Raises:
        SurveyError, ValueError: as ``reconcile``.
    """
    return Overlaps(tables.items(), survey).disagreement()


def reconcile(
    tables: Mapping[Names, Floats],
    survey: Survey,
    *,
    method: Agreement = "least-squares",
    weights: Mapping[Names, float] | None = None,
    iterations: int = ITERATIONS,
    tolerance: float = TOLERANCE,
) -> Reconciled:
    """Non-negative tables of total 1 whose common marginals agree, near to the given ones.

    *Least squares* minimizes ``sum_t w_t ||X_t - T_t||**2``. The nearest tables that agree are
    known in closed form; non-negativity is added by Dykstra's alternating projections. These are
    gradient steps on the dual problem, so they are taken with Nesterov's momentum, restarted when
    it leads astray. At the end a trace of the uniform table, which agrees with everything, is mixed
    in until no entry is negative; so the tables agree up to rounding, however early one stops. Raw
    estimates, negative entries and all, are what this method expects. From any non-negative tables
    of total 1 that agree, so from the truth, the result is in this norm not farther than the raw
    tables.

    *IPF* minimizes ``sum_t w_t KL(X_t || T_t)``: for one set of common attributes after the other,
    the tables are scaled to the weighted geometric mean of their marginals (cyclic Bregman
    projections). Positive entries stay positive and the interactions that belong to one table
    alone stay as they are; a 0 stays 0, and takes the other tables' marginals with it.

    Args:
        tables: by the names of their attributes, of shape ``(size of the first, ...)``.
        survey: what was asked.
        method: by name.
        weights: per table, positive: its number of reports. Equal if not given.
        iterations: the most projections or sweeps, at least 1.
        tolerance: the residual at which to stop, at least 0.

    Raises:
        SurveyError: an unknown or repeated name.
        ValueError: no table, one of another shape, of more than 2**27 cells in all, each times its
            sets of attributes, an entry that is not finite, weights of other tables or not
            positive, a limit out of range, an unknown method; for IPF, a negative entry or tables
            that have no cell in common.
    """
    _check_limits(iterations, tolerance)
    if weights is not None and set(weights) != set(tables):
        raise ValueError("weights: expected one for each table")
    overlaps = Overlaps(
        tables.items(), survey, [weights[key] for key in tables] if weights is not None else None
    )
    match method:
        case "least-squares":
            nearest, made, residual = _nearest(
                overlaps.agreeing,
                overlaps.values,
                share=1 / len(tables),
                iterations=iterations,
                tolerance=tolerance,
            )
            overlaps.values[:] = overlaps.mixed(nearest)
        case "ipf":
            if overlaps.values.min() < 0:
                raise ValueError("a table has a negative entry: project it first")
            made, residual = _scaled(overlaps, iterations, tolerance)
        case _:
            raise ValueError(f"method {method!r}: expected 'least-squares' or 'ipf'")
    return Reconciled(
        tables=dict(zip(tables, overlaps.tables(), strict=True)),
        method=method,
        iterations=made,
        residual=residual,
        disagreement=overlaps.disagreement(),
        converged=residual <= tolerance,
    )


def higher_marginal(
    tables: Mapping[Names, Floats],
    names: Sequence[str],
    survey: Survey,
    *,
    method: Extension = "least-squares",
    iterations: int = ITERATIONS,
    tolerance: float = MARGINAL_TOLERANCE,
) -> HigherMarginal:
    """The table of any attributes, from tables that agree and that cover them together.

    Of all non-negative tables with the known marginals, *least squares* is the one of least
    ``sum_v T[v]**2`` (the paper's choice), *maximum entropy* the one nearest to the uniform by
    iterative proportional fitting. If one table has all the attributes, its marginal is the result.

    Args:
        tables: non-negative, of total 1, that agree: what ``reconcile`` gives.
        names: the attributes, each at most once; those that no table has in common are related
            only as far as the method relates them.
        survey: what was asked.
        method: by name.
        iterations: the most projections or sweeps, at least 1.
        tolerance: where to stop: least squares at a negative share, maximum entropy at an error in
            a marginal of at most this much, at least 0.

    Raises:
        SurveyError: an unknown or repeated name.
        ValueError: no name, more than 2**22 cells, an attribute that no table has, tables that are
            negative somewhere, do not agree or have another total (reconcile them first), a limit
            out of range, an unknown method, or what ``reconcile`` refuses in tables; for maximum
            entropy, marginals whose zeros leave no cell of the table positive.
    """
    _check_limits(iterations, tolerance)
    if method not in ("least-squares", "maximum-entropy"):
        raise ValueError(f"method {method!r}: expected 'least-squares' or 'maximum-entropy'")
    axes = survey.axes(names)
    shape = tuple(survey.sizes[axis] for axis in axes)
    if not names or math.prod(shape) > MAX_MARGINAL_CELLS:
        raise ValueError(
            f"a table of {len(names)} attributes and {math.prod(shape)} cells: expected at least "
            f"1 attribute and at most {MAX_MARGINAL_CELLS} cells"
        )
    known = _known_marginals(tables, tuple(names), survey)
    if (whole := known.get(tuple(range(len(shape))))) is not None:
        values, made, converged = whole, 0, True
    elif method == "least-squares":
        values, made, converged = _least_norm(known, shape, iterations, tolerance)
    else:
        values, made, converged = _most_even(known, shape, iterations, tolerance)
    values.flags.writeable = False
    return HigherMarginal(
        names=tuple(names),
        values=values,
        method=method,
        iterations=made,
        residual=max(
            float(np.abs(_sum_to(values, kept) - wanted).max()) for kept, wanted in known.items()
        ),
        converged=converged,
    )


Known: TypeAlias = dict[tuple[int, ...], Floats]
"""Marginals by their axes in a larger table, rising."""


def _known_marginals(tables: Mapping[Names, Floats], names: Names, survey: Survey) -> Known:
    """What the tables say of some attributes: the largest marginals, made to agree exactly."""
    parts: list[tuple[Names, Floats]] = []
    for key, table in tables.items():
        check_table(key, table, survey)
        # In the order of ``names``, as the axes of the result are.
        if kept := tuple(name for name in names if name in key):
            places = [key.index(name) for name in kept]
            order = [sorted(places).index(place) for place in places]
            parts.append((kept, _sum_to(table, sorted(places)).transpose(order)))
    if missing := [name for name in names if not any(name in kept for kept, _ in parts)]:
        raise ValueError(f"no table has the attribute {missing[0]!r}")
    overlaps = Overlaps(parts, survey)
    off = max(overlaps.disagreement(), *(abs(float(table.sum()) - 1) for _, table in parts))
    if overlaps.values.min() < 0 or off > _AGREEMENT:
        raise ValueError(
            "expected tables without negative entries, with a total of 1, that agree: reconcile "
            "them first"
        )
    overlaps.values[:] = np.maximum(overlaps.agreeing(overlaps.values), 0.0)
    largest = {frozenset(kept) for kept, _ in parts}
    return {
        tuple(names.index(name) for name in kept): table
        for (kept, _), table in zip(parts, overlaps.tables(), strict=True)
        if not any(set(kept) < other for other in largest)
    }


def _least_norm(
    known: Known, shape: tuple[int, ...], iterations: int, tolerance: float
) -> tuple[Floats, int, bool]:
    wanted = {
        tuple(kept[place] for place in part): _sum_to(marginal, part)
        for kept, marginal in known.items()
        for part in subsets(range(len(kept)))
    }

    def project(values: Floats) -> Floats:
        # From few attributes to many: as in ``Overlaps.agreeing``.
        table = values.reshape(shape).copy()
        for kept in sorted(wanted, key=len):
            change = (wanted[kept] - _sum_to(table, kept)) * (wanted[kept].size / table.size)
            table += _along(change, kept, shape)
        return table.reshape(-1)

    start = np.zeros(math.prod(shape))
    nearest, made, residual = _nearest(
        project, start, share=1.0, iterations=iterations, tolerance=tolerance
    )
    values = np.maximum(nearest, 0.0).reshape(shape)
    return values / values.sum(), made, residual <= tolerance


def _most_even(
    known: Known, shape: tuple[int, ...], iterations: int, tolerance: float
) -> tuple[Floats, int, bool]:
    values = np.full(shape, 1 / math.prod(shape))
    sweep = 0
    while True:
        sweep += 1
        error = 0.0
        for kept, wanted in known.items():
            marginal = _sum_to(values, kept)
            error = max(error, float(np.abs(marginal - wanted).max()))
            values *= _along(_ratio(wanted, marginal), kept, shape)
        total = float(values.sum())
        if not total > 0:
            raise ValueError("no table has the known marginals: where one is 0, another is not")
        if error <= tolerance or sweep == iterations:
            return values / total, sweep, error <= tolerance


def _scaled(overlaps: Overlaps, iterations: int, tolerance: float) -> tuple[int, float]:
    """Scale the tables in place until they agree: the sweeps made and the disagreement left."""
    sweep = 0
    while True:
        sweep += 1
        for shared in (overlaps.totals, *overlaps.shared):
            marginals = shared.marginals(overlaps.values)
            ratios = _ratio(_geometric_mean(marginals, shared.weights), marginals)
            overlaps.values[shared.places] *= ratios.ravel()[shared.cells]
        left = overlaps.disagreement()
        if left <= tolerance or sweep == iterations:
            return sweep, left


def _nearest(
    project: Callable[[Floats], Floats],
    start: Floats,
    *,
    share: float,
    iterations: int,
    tolerance: float,
) -> tuple[Floats, int, float]:
    """The point nearest to ``start`` of an affine space without negative entries.

    Dykstra's corrections for non-negativity are multipliers: with them added to ``start``, the
    point is a projection alone. It is optimal where in every entry it or its multiplier is 0 and
    both are at least 0; the residual adds up what is missing.
    """
    multipliers = ahead = np.zeros(len(start))
    pace = 1.0
    made = 0
    while True:
        made += 1
        values = project(start + ahead)
        corrected = np.maximum(ahead - values, 0.0)
        missing = ahead - corrected
        residual = share * float(np.abs(missing).sum())
        if residual <= tolerance or made == iterations:
            return values, made, residual
        step = corrected - multipliers
        if np.vdot(missing, step) > 0:
            pace = 1.0
        following = (1 + math.sqrt(1 + 4 * pace**2)) / 2
        ahead = corrected + (pace - 1) / following * step
        multipliers, pace = corrected, following


def _geometric_mean(marginals: Floats, weights: Floats) -> Floats:
    logarithms = np.log(marginals, out=np.full_like(marginals, -np.inf), where=marginals > 0)
    mean = (weights * logarithms).sum(axis=0) / weights.sum()
    if not np.isfinite(mean).any():
        raise ValueError("the tables have no positive cell in common")
    positive: Floats = np.exp(mean - mean.max())
    positive /= positive.sum()
    return positive


def _ratio(wanted: Floats, marginal: Floats) -> Floats:
    return np.divide(wanted, marginal, out=np.zeros_like(marginal), where=marginal > 0)


def _sum_to(table: Floats, kept: Sequence[int]) -> Floats:
    return np.asarray(table.sum(axis=tuple(a for a in range(table.ndim) if a not in kept)))


def _along(table: Floats, kept: Sequence[int], shape: Sequence[int]) -> Floats:
    return table.reshape([size if axis in kept else 1 for axis, size in enumerate(shape)])


def _check_limits(iterations: int, tolerance: float) -> None:
    if iterations < 1 or not tolerance >= 0:
        raise ValueError(f"{iterations} iterations, tolerance {tolerance}: expected 1, 0 or more")
