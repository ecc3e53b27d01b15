"""Estimates of joint distributions from randomized records, with standard errors.

One class covers RR-Independent (a block per attribute), RR-Joint (one block of all), RR-Clusters
(anything between) and, for any choice of attributes, the composed estimator RR-Ind-Joint.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from protocol.crypto.randomness import WORDS
from protocol.estimators.counts import Counts
from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.laws import About, ErrorLaw, NormalLaw, Variance
from protocol.estimators.projection import Projection
from protocol.estimators.tables import Estimated, Table, standard_error, standard_errors
from protocol.randomizers import CodeRandomizer, KeepUniform
from protocol.randomizers.exact import Floats
from protocol.randomizers.unmixing import Unmixing
from protocol.surveys.survey import Survey, check_partition


class Block(msgspec.Struct, frozen=True):
    """Attributes that one randomizer randomizes together.

    The randomizer works on the product domain of the attributes, in row-major order: the last
    attribute's code changes fastest.
    """

    attributes: tuple[str, ...]
    randomizer: CodeRandomizer


class Asked(NamedTuple):
    """What a table of some attributes takes: shares of reports, and the inverse of each block.

    ``shares`` has one axis per block concerned. ``grouped`` names the attributes asked for in the
    order in which the inverses give them. ``tabulated`` are the columns of the reports that the
    shares are of.
    """

    shares: Floats
    inverses: tuple[Unmixing, ...]
    grouped: tuple[str, ...]
    tabulated: tuple[int, ...]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class JointEstimate(Estimate):
    """Unbiased estimates of any marginal of the joint distribution of the answers.

    Attributes of one block are unmixed together, and blocks are combined by mode products of their
    inverses: the reports' joint table is used, and independence is assumed nowhere (Kikuchi and
    Domingo-Ferrer, RR-Ind-Joint, Algorithm 3; Domingo-Ferrer and Soria-Comas, sections 3 and 6).

    Args:
        survey: what was asked.
        blocks: a partition of the survey's attributes, with the randomizer of each part.
        counts: the randomized records, columns in the survey's order.

    Raises:
        SurveyError: a block names an attribute that the survey does not have.
        ValueError: the blocks are not a partition, a randomizer is not of its block's size, or the
            counts are of other attributes or of no record at all.
    """

    survey: Survey
    blocks: tuple[Block, ...]
    counts: Counts

    def __post_init__(self) -> None:
        check_partition(self.survey, [block.attributes for block in self.blocks])
        for block in self.blocks:
            cells = math.prod(self.sizes_of(block.attributes))
            if block.randomizer.size != cells:
                raise ValueError(
                    f"block {block.attributes}: randomizer of size {block.randomizer.size}, "
                    f"expected {cells}"
                )
        if self.counts.sizes != self.survey.sizes:
            raise ValueError(
                f"counts of sizes {self.counts.sizes}, expected {self.survey.sizes} by the survey"
            )
        if not self.counts.n:
            raise ValueError("no reports: expected at least one")

    def __repr__(self) -> str:
        return f"<JointEstimate: n={self.n}, {len(self.blocks)} blocks>"

    @property
    def n(self) -> int:
        """The number of reports."""
        return self.counts.n

    def table(self, *names: str, projection: Projection = "none") -> Table:
        """The estimated joint distribution of some attributes, in any order.

        ``pi = lambda Q`` with Q the inverse of the randomization matrix. The variance of cell v
        given the data is ``(sum_y lambda_y Q[y,v]**2 - pi_v) / n``, and with respondents sampled
        from a population ``(sum_y lambda_y Q[y,v]**2 - pi_v**2) / n``, both estimated from the
        observed shares. Where that is not positive the error is unknown.
        """
        shares, inverses, grouped, _ = self.asked(names)
        estimate = squares = shares
        for axis, inverse in enumerate(inverses):
            estimate = inverse.apply(estimate, axis)
            squares = inverse.apply_squared(squares, axis)
        slopes = functools.reduce(np.multiply.outer, [i.slopes for i in inverses])
        sizes = self.sizes_of(grouped)
        order = [grouped.index(name) for name in names]

        def arranged(cells: Floats) -> Floats:
            return np.ascontiguousarray(cells.reshape(sizes).transpose(order))

        return self._table(
            names,
            projection,
            arranged(estimate),
            standard_errors=arranged(
                standard_errors((squares - estimate) / self.n, squares / self.n)
            ),
            population_errors=arranged(
                standard_errors((squares - estimate**2) / self.n, squares / self.n)
            ),
            law=_law(arranged(estimate), arranged(squares), arranged(slopes), self.n),
        )

    def query(self, names: Sequence[str], weights: ArrayLike) -> Estimated:
        """The mean over the respondents of a weight that depends on some attributes.

        With w the weights, the value is ``sum_y lambda_y (Qw)_y`` and its variance given the data
        is ``(sum_y lambda_y (Qw)_y**2 - sum_x pi_x w_x**2) / n``; where that is not positive it is
        unknown, as for ``table``. One weight for all has no error.
        """
        given = self.checked_weights(names, weights)
        names = tuple(names)
        shares, inverses, grouped, _ = self.asked(names)
        cells = tuple(inverse.cells for inverse in inverses)
        ordered = given.transpose([names.index(name) for name in grouped]).reshape(cells)
        per_report, per_report_squared = ordered, ordered**2
        for axis, inverse in enumerate(inverses):
            per_report = inverse.apply_transposed(per_report, axis)
            per_report_squared = inverse.apply_transposed(per_report_squared, axis)
        value = float(np.sum(shares * per_report))
        if np.ptp(given) == 0:
            return Estimated(value, 0.0)
        squares = float(np.sum(shares * per_report**2)) / self.n
        variance = float(np.sum(shares * (per_report**2 - per_report_squared))) / self.n
        return Estimated(value, standard_error(variance, squares))

    def asked(self, names: Sequence[str], weights: Floats | None = None) -> Asked:
        """What a table of some attributes takes.

        Args:
            names: the attributes.
            weights: of the distinct reports, shape (u,), in place of their shares of all reports.

        Raises:
            SurveyError, ValueError: as ``table``.
        """
        if not names:
            raise ValueError("expected at least one attribute")
        self.survey.axes(names)
        inverses: list[Unmixing] = []
        grouped: list[str] = []
        tabulated: list[int] = []
        lengths: list[int] = []
        for block in self.blocks:
            kept = [place for place, name in enumerate(block.attributes) if name in names]
            if not kept:
                continue
            inverse = block.randomizer.unmixing(self.sizes_of(block.attributes), kept)
            inverses.append(inverse)
            grouped += [block.attributes[place] for place in kept]
            reported = [block.attributes[place] for place in inverse.tabulated]
            tabulated += self.survey.axes(reported)
            lengths.append(math.prod(self.sizes_of(reported)))
        if weights is None:
            shares = self.counts.table(tabulated).reshape(lengths) / self.n
        else:
            shares = self.counts.weighted_table(tabulated, weights).reshape(lengths)
        return Asked(shares, tuple(inverses), tuple(grouped), tuple(tabulated))


def _law(estimate: Floats, squares: Floats, slopes: Floats, n: int) -> ErrorLaw:
    """The law of shares that are means of scores.

    The mean square of the scores is ``squares`` where the truth is the estimate, and changes by
    ``slopes`` for each unit of the truth. The variance of n scores' mean is their mean square less
    the square of their mean, over n; given the answers it is less by the variance of these.
    """
    base = (squares - slopes * estimate) / n
    variances: dict[About, Variance] = {
        "respondents": Variance(base, (slopes - 1) / n),
        "population": Variance(base, slopes / n, -1 / n),
    }
    return NormalLaw(values=estimate, variances=variances)


def mean_squared_error(randomizers: Sequence[KeepUniform], n: int) -> float:
    """The exact mean squared error per cell of a raw joint estimate, given the data.

    For one block per randomizer, over the product of their domains, K cells in all:
    ``(prod_j [1 + (1/a_j**2 - 1)(1 - 1/r_j)] - 1) / (n K)``. It does not depend on the data, and
    for a single block it is ``(1/a**2 - 1)(1 - 1/K) / (n K)``.

    Args:
        randomizers: of the blocks whose attributes the table shows, on what it shows of each
            (``KeepUniform.marginal``).
        n: the number of reports.

    Raises:
        ValueError: no randomizer, or no report.
    """
    if not randomizers or n < 1:
        raise ValueError(f"{len(randomizers)} randomizers, {n} reports: expected at least 1 each")
    # log1p and expm1, since the product may be 1 but for its last digits.
    logarithm = math.fsum(
        math.log1p(
            (WORDS**2 - keep.threshold**2) / keep.threshold**2 * ((keep.size - 1) / keep.size)
        )
        for keep in randomizers
    )
    return math.expm1(logarithm) / (n * math.prod(keep.size for keep in randomizers))
