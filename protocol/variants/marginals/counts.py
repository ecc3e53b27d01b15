"""Counts of reports for the release of marginals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from protocol.randomizers.exact import check_codes
from protocol.randomizers.marginals import MarginalPlan, MarginalReports

Counted: TypeAlias = NDArray[np.int64]

# Rows of one-hot reports that are unpacked at one time, in bytes of a bit each.
_UNPACKED_AT_ONCE = 2**22


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MarginalCounts:
    """Additive counts of reports: all input of an estimate.

    Attributes:
        plan: of the reports.
        reports: number of reports on each choice, shape (choices,).
        totals: RR and PS: number of reports of each cell, shape (choices, cells); an RR report may
            have several cells. HT: number of reports of the sign -1, shape (choices, 1).

    Raises:
        ValueError: other shapes or types, a negative count or one larger than the number of
            reports, or no report.
    """

    plan: MarginalPlan
    reports: Counted
    totals: Counted

    def __post_init__(self) -> None:
        choices = self.plan.choices
        width = 1 if self.plan.transformed else self.plan.cells
        for name, array, shape in (
            ("reports", self.reports, (choices,)),
            ("totals", self.totals, (choices, width)),
        ):
            if array.shape != shape or array.dtype != np.int64:
                raise ValueError(
                    f"{name} of type {array.dtype} and shape {array.shape}: expected int64, {shape}"
                )
            array.flags.writeable = False
        if (self.totals < 0).any() or (self.totals > self.reports[:, None]).any():
            raise ValueError("a count is negative or larger than the number of reports")
        if self.plan.method.endswith("PS") and (self.totals.sum(axis=1) != self.reports).any():
            raise ValueError("the counts of the cells do not add up to the number of reports")
        if self.n < 1:
            raise ValueError("no reports: expected at least one")

    def __repr__(self) -> str:
        return f"<MarginalCounts: {self.plan.method}, n={self.n}>"

    @property
    def n(self) -> int:
        """The number of respondents."""
        return int(self.reports.sum())

    @classmethod
    def of(cls, plan: MarginalPlan, reports: MarginalReports) -> MarginalCounts:
        """Count reports.

        Raises:
            ValueError: shapes or types that are not the plan's, a value out of range, or no report.
        """
        choices, answers = reports
        if choices.ndim != 1 or answers.shape != (*choices.shape, *plan.randomizer.report.shape):
            raise ValueError(f"choices of shape {choices.shape}, answers of {answers.shape}")
        check_codes(choices, plan.choices)
        if plan.one_hot:
            counted = np.bincount(choices.astype(np.intp), minlength=plan.choices)
            totals = _ones(choices, answers, count_choices=plan.choices, size=plan.randomizer.size)
            return cls(plan=plan, reports=counted.astype(np.int64), totals=totals)
        size = plan.randomizer.size
        check_codes(answers, size)
        joint = choices.astype(np.intp)
        joint *= size
        joint += answers.astype(np.intp)
        table = np.bincount(joint, minlength=plan.choices * size).astype(np.int64, copy=False)
        table = table.reshape(plan.choices, size)
        shown = table[:, 1:].copy() if plan.transformed else table
        return cls(plan=plan, reports=table.sum(axis=1), totals=shown)

    @classmethod
    def joined(cls, parts: Sequence[MarginalCounts]) -> MarginalCounts:
        """The counts of all parts' reports together.

        Raises:
            ValueError: no part, or not all of one plan.
        """
        if not parts or any(part.plan != parts[0].plan for part in parts):
            raise ValueError("expected counts of one plan, at least one")
        return cls(
            plan=parts[0].plan,
            reports=np.sum([part.reports for part in parts], axis=0),
            totals=np.sum([part.totals for part in parts], axis=0),
        )


def _ones(
    choices: NDArray[np.unsignedinteger],
    answers: NDArray[np.unsignedinteger],
    *,
    count_choices: int,
    size: int,
) -> Counted:
    """Number of one-hot reports with each bit set, shape ``(count_choices, size)``."""
    if answers.dtype != np.uint8:
        raise ValueError(f"packed bits of type {answers.dtype}: expected uint8")
    if size % 8 and (answers[:, -1] >> (size % 8)).any():
        raise ValueError("a report has a bit set beyond its cells")
    totals = np.zeros((count_choices, size), np.int64)
    if count_choices == 1:
        rows = max(1, _UNPACKED_AT_ONCE // size)
        for start in range(0, len(answers), rows):
            part = answers[start : start + rows]
            bits = np.unpackbits(part, axis=1, count=size, bitorder="little")
            totals[0] += bits.sum(axis=0, dtype=np.int64)
        return totals
    for cell in range(size):
        has = answers[:, cell // 8] >> (cell % 8) & 1 == 1
        totals[:, cell] = np.bincount(choices[has].astype(np.intp), minlength=count_choices)
    return totals
