"""A release: counts of one report per respondent, with the design of their randomization."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.estimators.counts import Counts
from protocol.estimators.joint import Block, JointReports
from protocol.estimators.likelihood import Reported
from protocol.estimators.releases.components import component_subsets, meeting, shared_components
from protocol.randomizers.exact import Floats
from protocol.randomizers.mixing import FakesMixing
from protocol.surveys.survey import Survey


class Group(NamedTuple):
    """Attributes that are kept together with a probability, else drawn uniformly."""

    attributes: tuple[str, ...]
    keep: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Release:
    """Counts of one report of each respondent, in one table or in several.

    Args:
        groups: which attributes were randomized together, and how.
        tables: the counts, by their attributes; each is of the same n reports.

    Raises:
        ValueError: no table, one of an attribute in no group, or tables of different totals.
    """

    groups: tuple[Group, ...]
    tables: Mapping[tuple[str, ...], Counts]

    def __post_init__(self) -> None:
        covered = {name for group in self.groups for name in group.attributes}
        if not self.tables or not all(set(names) <= covered for names in self.tables):
            raise ValueError("expected at least one table, each of attributes that are in a group")
        if len({counts.n for counts in self.tables.values()}) > 1 or self.n < 1:
            raise ValueError("tables must have one total, and it must be positive")

    @classmethod
    def of_reports(cls, reports: JointReports) -> Release:
        """Whole randomized records.

        Raises:
            ValueError: as ``block_groups``.
        """
        return cls(block_groups(reports.blocks), {reports.survey.names: reports.counts})

    @classmethod
    def of_tables(
        cls, groups: tuple[Group, ...], tables: Mapping[tuple[str, ...], NDArray[np.integer]]
    ) -> Release:
        """Tables of counts, as arrays."""
        counts = {names: Counts.from_table(table) for names, table in tables.items()}
        return cls(groups, counts)

    @property
    def n(self) -> int:
        """The number of reports."""
        return next(iter(self.tables.values())).n

    def known(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Components of a table that some table of the release has, shape ``(2,) * k``."""
        found = np.zeros((2,) * len(names), np.bool_)
        for table in self.tables:
            found[component_subsets([name in table for name in names])] = True
        return found

    def keeps(self, names: Sequence[str]) -> Floats:
        """Factors by which randomization shrinks every component, shape ``(2,) * k``.

        It is the product of the keep probabilities of the groups that have an attribute in it, and
        0 where an attribute is in no group.
        """
        found = np.ones((2,) * len(names))
        left = set(names)
        for attributes, keep in self.groups:
            found = found * meeting([name in attributes for name in names], 1.0, keep)
            left -= set(attributes)
        for name in left:
            found = found * meeting([name == other for other in names], 1.0, 0.0)
        return found

    def counted(self, survey: Survey, names: Sequence[str]) -> list[Reported]:
        """The counts that a table of some attributes is fitted to, none within another.

        Counts that overlap in part are taken to be of different reports.

        Args:
            survey: the survey that was asked.
            names: the attributes of the table.
        """
        found: dict[frozenset[str], Reported] = {}
        for table in sorted(self.tables, key=lambda table: -len(set(table) & set(names))):
            inside = frozenset(table) & frozenset(names)
            if not inside or any(inside <= other for other in found):
                continue
            groups, mixings = [], []
            for attributes, keep in self.groups:
                part = tuple(name for name in attributes if name in inside)
                if part:
                    groups.append(part)
                    mixings.append(uniform_mixing(survey.sizes_of(part), keep))
            axes = [table.index(name) for part in groups for name in part]
            counts = self.tables[table].table(axes)
            shape = [len(mixing.fakes) for mixing in mixings]
            found[inside] = Reported(tuple(groups), counts.reshape(shape), tuple(mixings))
        return list(found.values())

    def added(self, names: Sequence[str]) -> Floats:
        """Variance of coins in each component, times the table's cells, shape ``(2,) * k``: 0."""
        return np.zeros((2,) * len(names))

    def noise(self, names: Sequence[str], by: Floats) -> None:
        """Noise of coins in a table: none."""

    def components(self, survey: Survey, names: Sequence[str], coefficients: Floats) -> Floats:
        """The known components of the reports' shares times their coefficients, added up.

        Args:
            survey: the survey that was asked.
            names: the attributes of the table.
            coefficients: shape ``(2,) * k``, 0 for components that are not known.
        """

        def shares(table: tuple[str, ...], kept: Sequence[str]) -> Floats:
            if not kept:
                return np.ones(())
            counts = self.tables[table]
            found: Floats = counts.table([table.index(name) for name in kept]) / counts.n
            return found

        sizes = tuple(survey.attribute(name).size for name in names)
        return shared_components(list(self.tables), shares, names, sizes, coefficients)


def uniform_mixing(sizes: Sequence[int], keep: float) -> FakesMixing:
    """The law of reports on some attributes that are kept together, else drawn uniformly.

    Args:
        sizes: the number of categories of each attribute.
        keep: the probability of keeping.
    """
    cells = math.prod(sizes)
    fakes = np.full(cells, (1 - keep) / cells)
    return FakesMixing(places=tuple(range(len(sizes))), keep=keep, fakes=fakes)


def block_groups(blocks: Sequence[Block]) -> tuple[Group, ...]:
    """The blocks of a design in which every randomizer keeps or draws uniformly.

    In such a design alone the variance of a component, summed over its cells, is known without the
    data. It is the same in all directions when the answers are uniform.

    Raises:
        ValueError: a randomizer of another kind.
    """
    groups = []
    for block in blocks:
        keep = block.randomizer.uniform_keep
        if keep is None:
            raise ValueError(
                f"block {block.attributes}: expected a randomizer that keeps or draws uniformly"
            )
        groups.append(Group(block.attributes, keep))
    return tuple(groups)
