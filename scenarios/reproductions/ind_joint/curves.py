"""Figures 5 to 8 of RR-Ind-Joint: both estimators' errors along one parameter, and where they meet.

Kikuchi and Domingo-Ferrer, section 4.2, on the synthetic data of 4.1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from protocol.estimators.dependence.dependence import cramers_v
from protocol.randomizers import KeepUniform
from protocol.randomizers.exact import Floats
from scenarios.datasets.correlated import correlated_counts, correlated_distribution
from scenarios.reproductions.ind_joint.accuracy import (
    Keeps,
    Mode,
    Reported,
    break_even_epsilon,
    break_even_n,
    break_even_v,
    readable,
    reports_on,
)
from scenarios.reproductions.ind_joint.plots import Curves, Picture
from scenarios.running.reproduction import Row

NOTICEABLE = 0.01
"""By how much Cramer's V of rounded data may be off without a remark."""


class Design(msgspec.Struct, frozen=True, kw_only=True):
    """Synthetic data and how they are randomized; the defaults are those of section 4.1.

    ``epsilon`` is that of each of the two attributes, as the paper has it.
    """

    n: int = 1000
    d: int = 10
    v: float = 0.5
    epsilon: float = 1.0

    @property
    def truth(self) -> Floats:
        """The distribution that the data are made from."""
        return correlated_distribution(self.d, v=self.v)

    @property
    def keeps(self) -> Keeps:
        """The randomizers of both attributes."""
        keep = KeepUniform.with_epsilon(self.d, epsilon=self.epsilon)
        return keep, keep

    @property
    def settings(self) -> dict[str, Any]:
        """What a row says of it."""
        return {"n": self.n, "d": self.d, "v": self.v, "epsilon": self.epsilon}


CURVES: Mapping[int, tuple[str, tuple[Design, ...]]] = {
    5: ("v", tuple(Design(v=step / 10) for step in range(11))),
    6: ("epsilon", tuple(Design(epsilon=step / 10) for step in range(1, 21))),
    7: ("n", tuple(Design(n=n) for n in (10, 100, 1000, 10_000))),
    8: ("d", tuple(Design(d=d) for d in range(2, 21))),
}
"""By figure: what its axis is, and its points."""

LABELS = {
    "v": "Cramer's V of the distribution",
    "epsilon": "epsilon per attribute (nats)",
    "n": "respondents n",
    "d": "categories d of each attribute",
}


class Part(NamedTuple):
    """What one figure, or the four views of one table, add to the report."""

    rows: list[Row]
    notes: list[str]
    pictures: list[Picture]


def curve(figure: int, *, mode: Mode, runs: int, seed: int) -> Part:
    """A whole figure, 5 to 8, in the mode asked for."""
    axis, points = CURVES[figure]
    rows = []
    for number, design in enumerate(points):
        counts = correlated_counts(design.n, d=design.d, v=design.v)
        seeds = [seed, figure, number]
        reported = reports_on(counts, design.truth, design.keeps, mode=mode, runs=runs, seeds=seeds)
        rows.append(curve_row(figure, design, reported, mode))
    found, note = _break_even(axis)
    if mode == "exact":
        # Without sampling RR-Ind-Joint is the better one everywhere.
        found = math.inf
    return Part(rows, [f"Figure {figure}: {note}"], [picture(figure, axis, rows, found)])


def curve_row(figure: int, design: Design, reported: Reported, mode: Mode) -> Row:
    """One point of a figure."""
    measured, errors = reported.errors()
    v = cramers_v(reported.truth)
    remark = ""
    if abs(v - design.v) > NOTICEABLE:
        remark = (
            f"{design.n:,} whole respondents in {design.d**2} cells cannot have V = {design.v:g}: "
            f"rounding makes it {v:.3g}."
        )
    return Row(
        settings={"figure": figure, **design.settings, "mode": mode},
        measured={
            "cramers_v": v,
            **measured,
            "break_even_n": break_even_n(design.truth, design.keeps),
        },
        standard_error=errors or None,
        remark=remark,
    )


def _break_even(axis: str) -> tuple[float, str]:
    """Where the estimators are equally good along an axis, if anywhere, and in words."""
    design = Design()
    n = f"{design.n:,}"
    match axis:
        case "v":
            v = break_even_v(
                lambda v: correlated_distribution(design.d, v=v), design.keeps, design.n
            )
            at_one = break_even_n(correlated_distribution(design.d, v=1.0), design.keeps)
            where = f"from V = {readable(v)} on" if math.isfinite(v) else "for no V up to 1"
            return v, (
                f"RR-Ind-Joint does not depend on V, as the paper says, but at n = {n} and epsilon "
                f"= {design.epsilon:g} it is the better one {where}; even at V = 1 that takes n = "
                f"{readable(at_one)}, and at V = 0 it never is."
            )
        case "epsilon":
            epsilon = break_even_epsilon(design.truth, lambda e: Design(epsilon=e).keeps, design.n)
            return epsilon, (
                f"at n = {n} RR-Ind-Joint is the better one from epsilon = {readable(epsilon)} per "
                "attribute on; the error of RR-Ind, which the paper calls constant, is so without "
                "sampling alone."
            )
        case "n":
            found = break_even_n(design.truth, design.keeps)
            return found, (
                f"RR-Ind-Joint is the better one from n = {readable(found)} on; its mean absolute "
                "error falls like n to the -1/2, not like 1/n as the paper reads off its curve, "
                "which has the effect of rounding alone."
            )
        case _:
            at = [break_even_n(other.truth, other.keeps) for other in CURVES[8][1]]
            winning = [o.d for o, n_star in zip(CURVES[8][1], at, strict=True) if n_star <= o.n]
            return max(winning, default=math.inf) + 0.5, (
                f"at n = {n} RR-Ind-Joint is the better one for "
                f"{'d up to ' + str(max(winning)) if winning else 'no d'}; it takes n = "
                f"{readable(at[0])} at d = 2 and {readable(at[-1])} at d = 20."
            )


def picture(figure: int, axis: str, rows: Sequence[Row], found: float) -> Curves:
    """The curves through these rows, and where along them the estimators are equally good."""

    def column(part: str, key: str) -> tuple[float, ...]:
        return tuple((getattr(row, part) or {}).get(key, 0.0) for row in rows)

    return Curves(
        title=f"Figure {figure}: mean absolute error, {rows[0].settings['mode']}",
        label=LABELS[axis],
        logarithmic=axis == "n",
        places=tuple(row.settings[axis] for row in rows),
        rr_ind=column("measured", "rr_ind_mae"),
        rr_ind_joint=column("measured", "rr_ind_joint_mae"),
        rr_ind_errors=column("standard_error", "rr_ind_mae"),
        rr_ind_joint_errors=column("standard_error", "rr_ind_joint_mae"),
        break_even=found,
    )
