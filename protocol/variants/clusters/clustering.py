"""Choice of the attributes that are randomized together, and of their randomizers.

Domingo-Ferrer and Soria-Comas, Multi-Dimensional Randomized Response, Algorithm 1 and section
6.3.2, as corrected.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

from protocol.estimators.dependence.dependence import Dependences
from protocol.estimators.joint import Block
from protocol.randomizers import KeepUniform
from protocol.surveys.survey import Survey, check_partition

Clusters = tuple[tuple[str, ...], ...]
"""A partition of a survey's attributes. Clusters are ordered by their first attribute, and the
attributes within each as in the survey."""


def cluster(
    dependences: Dependences, sizes: Mapping[str, int] | Survey, *, tv: int, td: float
) -> Clusters:
    """Merge attributes that depend on each other while their joint domain stays small.

    This is Algorithm 1. The dependence of two clusters is the largest between an attribute of one
    and an attribute of the other. Pairs of clusters are tried by falling dependence, equal ones in
    the order of their first attributes. The first pair of at least ``td`` with at most ``tv``
    combinations is merged, and the search starts again. It ends when no such pair is left; the
    printed loop has no such end.

    Args:
        dependences: of every pair of attributes.
        sizes: the number of categories of each of these attributes, or the survey.
        tv: T_v, the most combinations of categories in a merged cluster. An attribute with more
            stays by itself.
        td: T_d, the least dependence between clusters that are merged.

    Raises:
        ValueError: ``tv`` below 1, ``td`` negative or not finite, or the attributes of
            ``sizes`` are not those of ``dependences``.
    """
    if tv < 1:
        raise ValueError(f"tv {tv}: expected at least 1 combination")
    if not (math.isfinite(td) and td >= 0):
        raise ValueError(f"td {td}: expected a finite number of at least 0")
    names = dependences.names
    if isinstance(sizes, Survey):
        sizes = dict(zip(sizes.names, sizes.sizes, strict=True))
    if set(sizes) != set(names):
        raise ValueError(f"sizes of attributes {sorted(sizes)}, expected {sorted(names)}")
    matrix: list[list[float]] = dependences.matrix.tolist()
    clusters: list[tuple[int, ...]] = [(place,) for place in range(len(names))]
    while True:
        ranked = [
            (-max(matrix[i][j] for i in first for j in second), first, second)
            for first, second in combinations(clusters, 2)
        ]
        for negative, first, second in sorted(ranked):
            if -negative < td:
                continue
            merged = tuple(sorted(first + second))
            if math.prod(sizes[names[place]] for place in merged) <= tv:
                clusters = sorted({*clusters, merged} - {first, second})
                break
        else:
            return tuple(tuple(names[place] for place in part) for part in clusters)


def matched_epsilon(survey: Survey, names: Sequence[str], *, p: float) -> float:
    """The epsilon of randomizing each of these attributes by itself with keep probability p.

    ``E = sum over the attributes of ln(1 + r p / (1 - p))``, for the rounded thresholds that are
    used (6.3.1 as corrected).

    Raises:
        SurveyError: an unknown or repeated name.
        ValueError: no name, or what ``KeepUniform.with_keep`` refuses.
    """
    if not names:
        raise ValueError("expected at least one attribute")
    sizes = [survey.sizes[axis] for axis in survey.axes(names)]
    return math.fsum(KeepUniform.with_keep(size, p=p).epsilon for size in sizes)


def matched_blocks(
    survey: Survey, clusters: Sequence[Sequence[str]], *, p: float
) -> tuple[Block, ...]:
    """Randomizers of whole clusters at the epsilon that their attributes would cost one by one.

    A cluster of K combinations and of matched epsilon E keeps with a diagonal of
    ``1 / (1 + (K - 1) e**-E)`` (6.3.2 with its sign corrected), rounded so that its epsilon is at
    most E. An attribute by itself gets ``KeepUniform.with_keep`` with p.

    Args:
        survey: the survey that is asked.
        clusters: a partition of its attributes.
        p: the keep probability of an attribute by itself.

    Raises:
        SurveyError, ValueError: as ``check_partition``, or what ``KeepUniform`` refuses.
    """
    check_partition(survey, clusters)
    blocks = []
    for names in clusters:
        sizes = [survey.sizes[axis] for axis in survey.axes(names)]
        if len(sizes) == 1:
            randomizer = KeepUniform.with_keep(sizes[0], p=p)
        else:
            epsilon = matched_epsilon(survey, names, p=p)
            randomizer = KeepUniform.with_epsilon(math.prod(sizes), epsilon=epsilon)
        blocks.append(Block(tuple(names), randomizer))
    return tuple(blocks)
