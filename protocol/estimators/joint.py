"""Joint distributions from randomized records, with standard errors.

One class covers RR-Independent (a block per attribute), RR-Joint (one block of all) and RR-Clusters
(anything between). For any choice of attributes it is the composed estimator RR-Ind-Joint.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.crypto.randomness import WORDS
from protocol.estimators.counts import Counts
from protocol.estimators.inference.laws import (
    About,
    DeferredLaw,
    ErrorLaw,
)
from protocol.estimators.inference.scores import (
    Scores,
    check_covariance,
    ends_of_product,
    law_of_mean,
    weighted_law,
)
from protocol.estimators.likelihood import Reported
from protocol.estimators.linear import Source
from protocol.estimators.projection import project
from protocol.estimators.tables import (
    Cells,
    Estimated,
    change_by_one,
    standard_error,
    standard_errors,
)
from protocol.randomizers import CodeRandomizer, KeepUniform, join_codes
from protocol.randomizers.exact import Floats
from protocol.randomizers.unmixing import MatrixUnmixing, Moments, TableUnmixing, Unmixing
from protocol.surveys.survey import Survey, check_partition

if TYPE_CHECKING:
    from protocol.estimators.dependence.association import TestResult
    from protocol.estimators.dependence.pair_reports import PairReports

D = TypeVar("D", bound=np.generic)


class Block(msgspec.Struct, frozen=True):
    """Attributes that one randomizer randomizes together.

    The randomizer works on the product domain of the attributes, in row-major order: the last
    attribute's code changes fastest.
    """

    attributes: tuple[str, ...]
    randomizer: CodeRandomizer


class Asked(NamedTuple):
    """Shares of reports for a table of some attributes, and the inverse of each block.

    Attributes:
        shares: the shares of the reports, one axis per block concerned.
        inverses: the inverse of each block concerned.
        order: for each attribute, in the order of the blocks, its place among those asked for.
        sizes: their numbers of categories, in the order of the blocks.
        tabulated: the columns of the reports that the shares count.
    """

    shares: Floats
    inverses: tuple[Unmixing, ...]
    order: tuple[int, ...]
    sizes: tuple[int, ...]
    tabulated: tuple[int, ...]

    def by_block(self, cells: NDArray[D], lead: int = 0) -> NDArray[D]:
        """Reshape an array from an axis per attribute to one per block, after ``lead`` axes."""
        order = [*range(lead), *(lead + place for place in self.order)]
        blocks = [inverse.cells for inverse in self.inverses]
        return cells.transpose(order).reshape([*cells.shape[:lead], *blocks])

    def by_name(self, cells: NDArray[D]) -> NDArray[D]:
        """Reshape an array from an axis per block to one per attribute."""
        whole = np.broadcast_to(cells, [inverse.cells for inverse in self.inverses])
        order = np.argsort(self.order)
        return np.ascontiguousarray(whole.reshape(self.sizes).transpose(order))

    def per_report(self, weights: Floats, lead: int = 0) -> Floats:
        """Value of a report for weighted sums of cells, one axis per block.

        The mean over the reports is an unbiased estimate of the sum. The first ``lead`` axes of the
        weights number the sums.
        """
        found = self.by_block(weights, lead)
        for axis, inverse in enumerate(self.inverses, lead):
            found = inverse.apply_transposed(found, axis)
        return found

    def values(self) -> Floats:
        """The estimated shares, one axis per block."""
        return self._block_values(range(len(self.inverses)))

    def moments(self) -> list[Moments]:
        """The moments of each block's scores, with axes of length 1 for the other blocks."""
        blocks = []
        for axis, inverse in enumerate(self.inverses):
            shape = [-1 if other == axis else 1 for other in range(len(self.inverses))]
            found = inverse.moments(self.shares.sum(axis=self._all_but([axis])))
            blocks.append(found.reshaped(shape))
        return blocks

    def mean_squares(self) -> tuple[Floats, Floats]:
        """The estimated shares, and the mean squares of their scores, one axis per block."""
        estimate = squares = self.shares
        for axis, inverse in enumerate(self.inverses):
            estimate = inverse.apply(estimate, axis)
            squares = inverse.apply_squared(squares, axis)
        return estimate, squares

    def ends(self) -> tuple[Floats, Floats]:
        """The least and the largest score of every cell, one axis per block."""
        axes = len(self.inverses)
        blocks = []
        for axis, inverse in enumerate(self.inverses):
            shape = [-1 if other == axis else 1 for other in range(axes)]
            least, most = inverse.ends()
            blocks.append((least.reshape(shape), most.reshape(shape)))
        return ends_of_product(blocks)

    def scores(self) -> Scores:
        """Scores of every cell, one axis per block; arrays may have axes of length 1."""
        return Scores.of_product(
            self.moments(), lambda some: np.clip(self._block_values(some), 0.0, 1.0)
        )

    def collapsed(self, cells: NDArray[np.bool_]) -> Asked | None:
        """The same with two categories per block: a set of its categories, and the others.

        None if the cells are not the product of such sets.
        """
        axes = range(cells.ndim)
        sets = [np.asarray(cells.any(axis=self._all_but([axis]))) for axis in axes]
        if cells.sum() != math.prod(int(inside.sum()) for inside in sets):
            return None
        shares, inverses = self.shares, []
        for axis, (inverse, inside) in enumerate(zip(self.inverses, sets, strict=True)):
            inverses.append(inverse.collapsed(inside))
            if not isinstance(inverse, MatrixUnmixing):
                parts = (shares.compress(kept, axis).sum(axis=axis) for kept in (inside, ~inside))
                shares = np.stack(tuple(parts), axis=axis)
        return self._replace(shares=shares, inverses=tuple(inverses))

    def first(self) -> tuple[Floats, Scores]:
        """The estimated share of the first cell, and its scores."""

        def first_cell(cells: Floats) -> Floats:
            return np.asarray(cells[(0,) * cells.ndim])

        return first_cell(self.values()), self.scores().mapped(first_cell)

    def weighted_law(self, weights: Floats, n: int) -> ErrorLaw:
        """The law of the mean of a weight with more than two values.

        Its moments are those of reports from the estimated shares, with negative ones clipped. So a
        few similar reports do not make the mean look certain.
        """
        cells, values = self.by_block(weights), self.values()
        likely = project(values, "clip")
        shares = likely
        for axis, inverse in enumerate(self.inverses):
            shares = inverse.mixed(shares, axis)
        return weighted_law(
            float(np.sum(values * cells)),
            self.per_report(weights),
            shares,
            n,
            squares=float(np.sum(likely * cells**2)),
            least=float(weights.min()),
            most=float(weights.max()),
        )

    def _block_values(self, axes: Collection[int]) -> Floats:
        """The estimated shares of some blocks' categories; other axes have length 1."""
        found: Floats = self.shares.sum(axis=self._all_but(axes), keepdims=True)
        for axis in axes:
            found = self.inverses[axis].apply(found, axis)
        return found

    def _all_but(self, some: Collection[int]) -> tuple[int, ...]:
        return tuple(axis for axis in range(len(self.inverses)) if axis not in some)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class JointReports(Source):
    """Unbiased estimates of any marginal of the joint distribution of the answers.

    Attributes of one block are unmixed together. Blocks are combined by mode products of their
    inverses with the reports' joint table, without assuming independence (Kikuchi and
    Domingo-Ferrer, RR-Ind-Joint, Algorithm 3; Domingo-Ferrer and Soria-Comas, sections 3 and 6).

    Args:
        survey: the survey.
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
            cells = math.prod(self.survey.sizes_of(block.attributes))
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
        return f"<JointReports: n={self.n}, {len(self.blocks)} blocks>"

    @property
    def n(self) -> int:
        """The number of reports."""
        return self.counts.n

    @property
    def whole_reports(self) -> Counts:
        """All reports: each is of a whole record."""
        return self.counts

    @property
    def clusters(self) -> Sequence[tuple[str, ...]]:
        """The attributes of each block."""
        return [block.attributes for block in self.blocks]

    def independence(self, first: str, second: str) -> TestResult | None:
        """Test of independence, as ``Source.independence``; None if a block has another randomizer.

        For randomizers that keep or draw uniformly. Attributes of different blocks get the exact
        test of the reports, which are independent exactly if the answers are. Attributes of one
        block get the noise-aware test.
        """
        # Imported late: few estimates are tested.
        from protocol.estimators.dependence.association import exact_test, noise_aware_test

        reports = self.counts.table(self.survey.axes((first, second)))
        one, other = self._block_with(first), self._block_with(second)
        keep = one.randomizer.uniform_keep
        if keep is None or other.randomizer.uniform_keep is None:
            return None
        if one is not other:
            return exact_test(reports)
        return noise_aware_test(reports, keep=keep)

    def _block_with(self, name: str) -> Block:
        return next(block for block in self.blocks if name in block.attributes)

    def pair_reports(self, first: str, second: str) -> PairReports | None:
        """Reports as of ``Estimate.pair_reports``; None if one dense matrix randomized both."""
        # Imported late: few estimates are tested.
        from protocol.estimators.dependence.pair_reports import PairReports

        one, other = self._block_with(first), self._block_with(second)
        if one is not other:
            inverses: list[Floats] = []
            reported: list[str] = []
            for block, name in ((one, first), (other, second)):
                sizes = self.survey.sizes_of(block.attributes)
                inverse = block.randomizer.unmixing(sizes, [block.attributes.index(name)])
                named = [block.attributes[place] for place in inverse.tabulated]
                inverses.append(inverse.apply(np.eye(math.prod(self.survey.sizes_of(named))), 1))
                reported += named
            counts = self.counts.table(self.survey.axes(reported))
            shares = counts.reshape([len(inverse) for inverse in inverses]) / self.n
            return PairReports.apart(shares, self.n, *inverses)
        places = [one.attributes.index(name) for name in (first, second)]
        inverse = one.randomizer.unmixing(self.survey.sizes_of(one.attributes), places)
        if isinstance(inverse, MatrixUnmixing):
            return None
        shares = self.counts.table(self.survey.axes((first, second))) / self.n
        fakes = np.full(shares.shape, 1 / shares.size)
        if isinstance(inverse, TableUnmixing):
            fakes = inverse.fakes.reshape(shares.shape) / inverse.fakes.sum()
        return PairReports.together(shares, self.n, keep=1 / inverse.alpha, fakes=fakes)

    def cells(self, names: tuple[str, ...]) -> Cells:
        """The estimated joint distribution of some attributes.

        ``pi = lambda Q`` with Q the inverse of the randomization matrix. The variance of cell v
        given the data is ``(sum_y lambda_y Q[y,v]**2 - pi_v) / n``, and with respondents sampled
        from a population ``(sum_y lambda_y Q[y,v]**2 - pi_v**2) / n``. Both are estimated from the
        observed shares, and unknown for cells with too few reports (``standard_errors``).
        """
        asked = self.asked(names)
        estimate, squares = asked.mean_squares()
        # The largest of all cells, since a cell of 0 has the rounding error of the others.
        scale = np.broadcast_to(np.abs(squares).max() / self.n, squares.shape)
        ends = asked.ends()

        def errors(less: Floats, sampled: float) -> Floats:
            each = change_by_one(estimate, ends, self.n, sampled=sampled)
            return asked.by_name(standard_errors((squares - less) / self.n, scale, each))

        return Cells(
            asked.by_name(estimate),
            standard_errors=errors(estimate, 0.0),
            population_errors=errors(estimate**2, 1.0),
            law=DeferredLaw(partial(self._law, names), partial(self.covariance, names)),
        )

    def variances(self, names: Sequence[str], about: About) -> Floats:
        """The estimated variances of the cells of a table, even with few reports.

        Raises:
            SurveyError, ValueError: as ``table``.
        """
        asked = self.asked(names)
        estimate, squares = asked.mean_squares()
        less = estimate if about == "respondents" else estimate**2
        return asked.by_name((squares - less) / self.n)

    def mean(self, names: tuple[str, ...], weights: Floats) -> Estimated:
        """The mean over the respondents of a weight that depends on some attributes.

        With w the weights, the value is ``sum_y lambda_y (Qw)_y`` and its variance given the data
        is ``(sum_y lambda_y (Qw)_y**2 - sum_x pi_x w_x**2) / n``. It is unknown with too few
        reports, as for ``table``.
        """
        asked = self.asked(names)
        shares, per_report = asked.shares, asked.per_report(weights)
        value = float(np.sum(shares * per_report))
        squares = float(np.sum(shares * per_report**2)) / self.n
        added = per_report**2 - asked.per_report(weights**2)
        variance = float(np.sum(shares * added)) / self.n
        law = law_of_mean(
            weights, partial(self._set_law, names), partial(asked.weighted_law, n=self.n)
        )
        each = float(added.max()) / self.n**2
        return Estimated(value, standard_error(variance, squares, each), law)

    def scores(self, names: Sequence[str]) -> Scores:
        """Scores that a respondent adds to the cumulants of the cells of a table (``Scores``).

        If attributes were randomized apart, the variance of a cell depends on the shares of
        categories of some of them. These are estimated and clipped to 0 and 1.

        Raises:
            SurveyError, ValueError: as ``table``.
        """
        asked = self.asked(names)
        return asked.scores().mapped(asked.by_name)

    def covariance(self, names: Sequence[str], about: About) -> Floats:
        """The covariances of the cells of a table, shape (cells, cells), in row-major order.

        For cells u and v it is ``(sum_y lambda_y Q[y,u] Q[y,v] - [u=v] pi_u) / n`` given the data,
        and ``(sum_y lambda_y Q[y,u] Q[y,v] - pi_u pi_v) / n`` with respondents sampled from a
        population. Both are estimated from the observed shares.

        Raises:
            SurveyError: an unknown or repeated name.
            ValueError: no name, or more than 2,048 cells.
        """
        asked = self.asked(names)
        shares, number = asked.shares, math.prod(asked.sizes)
        check_covariance(max(shares.size, number))
        products = np.diag(shares.reshape(-1)).reshape(shares.shape * 2)
        for axis, inverse in enumerate(asked.inverses):
            products = inverse.apply(inverse.apply(products, axis), axis + shares.ndim)
        estimate = asked.values()
        cells = asked.by_name(np.arange(number).reshape(estimate.shape)).reshape(-1)
        values = estimate.reshape(-1)[cells]
        products = products.reshape(len(cells), -1)[np.ix_(cells, cells)]
        less = np.diag(values) if about == "respondents" else np.outer(values, values)
        found: Floats = (products - less) / self.n
        return found

    def _law(self, names: Sequence[str]) -> ErrorLaw:
        return self.scores(names).law(self.cells(tuple(names)).values, self.n)

    def _set_law(self, names: Sequence[str], inside: NDArray[np.bool_]) -> ErrorLaw | None:
        """The law of the share of a set of cells; None if it is not a product (``share``)."""
        share = self.share(names, inside)
        return None if share is None else share[1].law(share[0], self.n)

    def share(
        self, names: Sequence[str], inside: NDArray[np.bool_]
    ) -> tuple[Floats, Scores] | None:
        """The estimated share of a set of categories of each block, and its scores.

        None if the set is not a product of such sets.

        Args:
            names: the attributes.
            inside: the combinations of the set, one axis per attribute.

        Raises:
            SurveyError, ValueError: as ``table``.
        """
        asked = self.asked(names)
        found = asked.collapsed(asked.by_block(inside))
        return None if found is None else found.first()

    def reported(self, names: Sequence[str]) -> tuple[Reported, ...]:
        groups, mixings = [], []
        for block in self.blocks:
            kept = [place for place, name in enumerate(block.attributes) if name in names]
            if kept:
                mixing = block.randomizer.mixing(self.survey.sizes_of(block.attributes), kept)
                mixings.append(mixing)
                groups.append(tuple(block.attributes[place] for place in mixing.places))
        axes = self.survey.axes([name for group in groups for name in group])
        cells = [math.prod(self.survey.sizes_of(group)) for group in groups]
        counts = self.counts.table(axes).reshape(cells)
        return (Reported(tuple(groups), counts, tuple(mixings)),)

    def asked(self, names: Sequence[str], weights: Floats | None = None) -> Asked:
        """Shares of reports for a table of some attributes.

        Args:
            names: the attributes.
            weights: weights of the distinct reports, shape (u,), in place of their shares.

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
            inverse = block.randomizer.unmixing(self.survey.sizes_of(block.attributes), kept)
            inverses.append(inverse)
            grouped += [block.attributes[place] for place in kept]
            reported = [block.attributes[place] for place in inverse.tabulated]
            tabulated += self.survey.axes(reported)
            lengths.append(math.prod(self.survey.sizes_of(reported)))
        if weights is None:
            shares = self.counts.table(tabulated).reshape(lengths) / self.n
        else:
            shares = self.counts.weighted_table(tabulated, weights).reshape(lengths)
        order = tuple(list(names).index(name) for name in grouped)
        sizes = self.survey.sizes_of(grouped)
        return Asked(shares, tuple(inverses), order, sizes, tuple(tabulated))

    def scored(self, names: Sequence[str], weights: Floats) -> Floats:
        """Values of every distinct report for weighted sums of a table's cells.

        Args:
            names: the attributes of the table.
            weights: shape ``(sums, size of the first, size of the second, ...)``.

        Returns:
            Shape (u, sums): the mean over the reports of a column is the estimated sum.
        """
        asked = self.asked(names)
        places = list(asked.tabulated)
        sizes = [self.survey.sizes[place] for place in places]
        reported = join_codes(self.counts.codes[:, places], sizes).astype(np.intp)
        per_report = asked.per_report(weights, lead=1).reshape(len(weights), -1)
        return np.ascontiguousarray(per_report[:, reported].T)


def mean_squared_error(randomizers: Sequence[KeepUniform], n: int) -> float:
    """The exact mean squared error per cell of a raw joint estimate, given the data.

    For one block per randomizer, over the product of their domains, K cells in all:
    ``(prod_j [1 + (1/a_j**2 - 1)(1 - 1/r_j)] - 1) / (n K)``. It does not depend on the data, and
    for a single block it is ``(1/a**2 - 1)(1 - 1/K) / (n K)``.

    Args:
        randomizers: those of the table's blocks, restricted to the table's attributes
            (``KeepUniform.marginal``).
        n: the number of reports.

    Raises:
        ValueError: no randomizer, or no report.
    """
    if not randomizers or n < 1:
        raise ValueError(f"{len(randomizers)} randomizers, {n} reports: expected at least 1 each")
    # By log1p and expm1, since the product may be close to 1.
    logarithm = math.fsum(
        math.log1p(
            (WORDS**2 - keep.threshold**2) / keep.threshold**2 * ((keep.size - 1) / keep.size)
        )
        for keep in randomizers
    )
    return math.expm1(logarithm) / (n * math.prod(keep.size for keep in randomizers))
