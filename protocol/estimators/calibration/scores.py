"""What reports say of the cells of known margins, and how that goes with everything else.

An estimated share is the mean over the reports of a score h(y) whose mean is the share. So, about a
population of which the respondents are a random sample, estimates vary together as their scores do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from protocol.estimators.joint import Asked, JointReports
from protocol.randomizers import join_codes
from protocol.randomizers.exact import Floats


class ScoreMoments(NamedTuple):
    """The scores of a table's cells, each array of the table's shape.

    Attributes:
        values: their means: the estimated shares.
        squares: the means of their squares.
    """

    values: Floats
    squares: Floats

    @property
    def variances(self) -> Floats:
        """Of the scores."""
        variances: Floats = self.squares - self.values**2
        return variances


def functional_scores(joint: JointReports, names: Sequence[str], weights: Floats) -> Floats:
    """The scores of weighted sums of a table's cells, for every distinct report.

    Args:
        joint: whose reports.
        names: the attributes of the table.
        weights: shape ``(sums, size of the first, size of the second, ...)``.

    Returns:
        Shape (u, sums): the mean over the reports of a column is the estimated sum.
    """
    asked = joint.asked(names)
    per_report = functional_table(asked, names, weights)
    places = list(asked.tabulated)
    sizes = [joint.survey.sizes[place] for place in places]
    reported = join_codes(joint.counts.codes[:, places], sizes).astype(np.intp)
    return np.ascontiguousarray(per_report.reshape(len(weights), -1)[:, reported].T)


def functional_table(asked: Asked, names: Sequence[str], weights: Floats) -> Floats:
    """The same for every cell of the reports' table: shape (sums, reports of each block ...)."""
    order = [0, *(1 + list(names).index(name) for name in asked.grouped)]
    cells = [len(weights), *(inverse.cells for inverse in asked.inverses)]
    per_report = weights.transpose(order).reshape(cells)
    for axis, inverse in enumerate(asked.inverses, 1):
        per_report = inverse.apply_transposed(per_report, axis)
    return per_report


def unmixed(joint: JointReports, names: Sequence[str], weights: Floats | None = None) -> Floats:
    """The estimated table of some attributes, with other weights of the distinct reports, (u,)."""
    asked = joint.asked(names, weights)
    table = asked.shares
    for axis, inverse in enumerate(asked.inverses):
        table = inverse.apply(table, axis)
    return _arranged(joint, asked, names, table)


def moments(joint: JointReports, names: Sequence[str]) -> ScoreMoments:
    """The moments of the scores of a table's cells."""
    asked = joint.asked(names)
    values = squares = asked.shares
    for axis, inverse in enumerate(asked.inverses):
        values = inverse.apply(values, axis)
        squares = inverse.apply_squared(squares, axis)
    return ScoreMoments(*(_arranged(joint, asked, names, table) for table in (values, squares)))


def _arranged(joint: JointReports, asked: Asked, names: Sequence[str], table: Floats) -> Floats:
    """A table with one axis per attribute, in the order of names."""
    order = [asked.grouped.index(name) for name in names]
    return np.ascontiguousarray(
        table.reshape(joint.survey.sizes_of(asked.grouped)).transpose(order)
    )
