"""Chow-Liu trees: joint distributions that are described by pairs of attributes.

Kulkarni, Cormode and Srivastava, Marginal Release Under Local Differential Privacy, make them of
2-way marginals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from protocol.estimators.estimate import Estimate
from protocol.estimators.projection import project_simplex
from protocol.randomizers.exact import Floats
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey


def mutual_information(shares: Floats) -> float:
    """``sum p ln(p / (row margin * column margin))`` in nats, at least 0; empty cells add nothing.

    Args:
        shares: of two attributes, none negative, total 1.
    """
    expected = shares.sum(axis=1, keepdims=True) * shares.sum(axis=0, keepdims=True)
    # Two tiny margins may have a product of 0; they add next to nothing.
    filled = (shares > 0) & (expected > 0)
    ratio = np.divide(shares, expected, out=np.ones_like(shares), where=filled)
    return max(0.0, float((shares * np.log(ratio)).sum()))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ChowLiuTree:
    """A distribution of all attributes in which each depends on one other at most.

    Attributes:
        survey: the attributes.
        edges: (parent, child), m - 1 of them, every parent before its children; the root is the
            survey's first attribute.
        information: the mutual information of each edge in nats.
        root: the shares of the root's categories.
        conditionals: for each edge ``P(child | parent)``, rows the parent's categories.
    """

    survey: Survey
    edges: tuple[tuple[str, str], ...]
    information: tuple[float, ...]
    root: Floats
    conditionals: tuple[Floats, ...]

    def __repr__(self) -> str:
        edges = ", ".join(f"{parent} -> {child}" for parent, child in self.edges)
        return f"<ChowLiuTree: {edges or self.survey.names[0]}>"

    def log_likelihood(self, records: Records) -> float:
        """The mean over the respondents of ``ln P(record)``, in nats; -inf if one is impossible.

        For the tree of the records' own exact tables it is the sum of the edges' information, less
        the entropies of all attributes.

        Raises:
            SurveyError: the records lack an attribute.
        """
        value = _expected_log(records.counts(self.survey.names[:1]), self.root)
        for edge, conditional in zip(self.edges, self.conditionals, strict=True):
            value += _expected_log(records.counts(edge), conditional)
        return value / len(records)


def chow_liu(estimate: Estimate, *, mix: float = 0.0) -> ChowLiuTree:
    """The tree of the largest total mutual information, from the tables of all pairs.

    For exact tables it is the tree distribution of the largest likelihood (Chow and Liu 1968). Of
    equal pairs the first in the survey's order is taken.

    Args:
        estimate: one that has the table of every pair, for at least 2 attributes; each table is
            projected onto the simplex.
        mix: the share of the uniform distribution in every pair's table afterwards, at least 0 and
            below 1. Above 0 no record is impossible.

    Raises:
        ValueError: fewer than 2 attributes, a mix out of range, or a pair without a table.
    """
    survey = estimate.survey
    if len(survey.names) < 2:
        raise ValueError("expected at least 2 attributes")
    if not 0 <= mix < 1:
        raise ValueError(f"mix {mix}: expected at least 0, less than 1")
    pairs = list(combinations(survey.names, 2))
    raw = estimate.pairs()
    if [table.names for table in raw] != pairs:
        raise ValueError("expected an estimate that has the table of every pair")
    shares = [project_simplex(table.values) for table in raw]
    tables: list[Floats] = [(1 - mix) * table + mix / table.size for table in shares]
    gains = [mutual_information(table) for table in tables]
    edges = _spanning_tree(gains, len(survey.names))
    place = {pair: i for i, pair in enumerate(combinations(range(len(survey.names)), 2))}
    joint = [
        tables[place[parent, child]] if parent < child else tables[place[child, parent]].T
        for parent, child in edges
    ]
    return ChowLiuTree(
        survey=survey,
        edges=tuple((survey.names[parent], survey.names[child]) for parent, child in edges),
        information=tuple(gains[place[min(edge), max(edge)]] for edge in edges),
        # The root is the parent of the first edge.
        root=joint[0].sum(axis=1),
        conditionals=tuple(map(_conditional, joint)),
    )


def _spanning_tree(gains: Sequence[float], m: int) -> list[tuple[int, int]]:
    """The edges (parent, child) of the maximum spanning tree from attribute 0, breadth first."""
    # Imported here: it takes longer than all of this package.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

    first, second = np.triu_indices(m, 1)
    # Ranks as weights: all different, and from 1 on, since scipy takes 0 for no edge.
    ranks = np.empty(len(first))
    ranks[np.argsort(-np.asarray(gains), kind="stable")] = np.arange(1, len(first) + 1)
    tree = minimum_spanning_tree(coo_array((ranks, (first, second)), shape=(m, m)).tocsr())
    order, parents = breadth_first_order(tree, 0, directed=False)
    return [(int(parents[child]), int(child)) for child in order[1:]]


def _conditional(joint: Floats) -> Floats:
    """``P(second | first)``; uniform if the first has no share."""
    margin = joint.sum(axis=1, keepdims=True)
    uniform = np.full_like(joint, 1 / joint.shape[1])
    law: Floats = np.divide(joint, margin, out=uniform, where=margin > 0)
    return law


def _expected_log(counts: ArrayLike, law: Floats) -> float:
    """``sum counts ln law`` over the cells with a count."""
    found = np.asarray(counts, np.float64)
    if (law[found > 0] <= 0).any():
        return -np.inf
    logs = np.log(law, out=np.zeros_like(law), where=found > 0)
    return float((found * logs).sum())
