"""Calibration of an estimate as a value: its method, margins and fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from protocol.randomizers.exact import Floats

if TYPE_CHECKING:
    from protocol.estimators.calibration.margins import Margin

Method: TypeAlias = Literal["linear", "post-stratified", "raking"]
"""Methods of calibration."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Adjusted:
    """Weights and their fit.

    Attributes:
        weights: at least 0, with a total of 1 (but for rounding): one per record, or per distinct
            record, as the records were given.
        sweeps: the number of sweeps.
        margin_error: the largest ``|weighted margin - target|`` over all groups and cells, after
            the last sweep, with targets as rescaled.
        converged: whether the margin error is within the tolerance.
        unplaced: the largest share of a group's target that lies on cells in which no record can
            have a weight. 0 unless a category is missing from the reports.
        effective_n: Kish's effective sample size of the weights (``effective_number``).
    """

    weights: Floats
    sweeps: int
    margin_error: float
    converged: bool
    unplaced: float
    effective_n: float

    def __post_init__(self) -> None:
        self.weights.flags.writeable = False


class FarShare(NamedTuple):
    """A known share that the reports contradict.

    Attributes:
        names: the attributes of the margin.
        cell: the combination of their categories.
        share: the known share.
        low, high: its interval by the reports.
    """

    names: tuple[str, ...]
    cell: tuple[str, ...]
    share: float
    low: float
    high: float


class Calibrated(NamedTuple):
    """Calibration of an estimate to known margins.

    Attributes:
        method: which of the three.
        known: the margins; raking may have none, and agree with estimated ones alone.
        far: known shares that the reports contradict.
        clear: whether errors are known.
        effective_n: Kish's effective sample size of the weights; None if there are none.
        fit: how well raking fits.
    """

    method: Method
    known: tuple[Margin, ...]
    far: Sequence[FarShare]
    clear: bool
    effective_n: float | None = None
    fit: Adjusted | None = None
