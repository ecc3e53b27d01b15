"""Bayesian networks as sources of records: the law of a survey's answers, and draws from it.

Survey, Alarm and Child are those of the Bayesian Network Repository (M. Scutari), on which RRBA
reports its experiments. They come with this package, as JSON; others in their place are read from a
folder.
"""

from __future__ import annotations

import graphlib
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from string import ascii_letters
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from parties.keeping.writing import reason
from protocol.crypto.randomness import WORDS, Stream
from protocol.simulation.populations.population import Law, Population
from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey, shown
from scenarios.data import DatasetError
from scenarios.data.raw_files import packaged, raw_file

MAX_BYTES = 2**24
"""Maximum size of a file that is read from a folder."""

ROW_TOLERANCE = Fraction(1, 10**6)
"""Largest deviation of a row's sum from 1: thirds are written with seven digits."""

MAX_CELLS = 2**22
"""The largest table that is made on the way to an exact distribution."""


class Variable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One variable of a network and its law given its parents.

    Attributes:
        name: unlike any other.
        categories: at least 2 of them.
        parents: the names of the variables that it depends on directly.
        rows: one distribution of exact fractions per combination of the parents' categories, in
            row-major order of the parents as listed; a single one without parents.
    """

    name: str
    categories: tuple[str, ...]
    parents: tuple[str, ...]
    rows: tuple[tuple[Fraction, ...], ...]


class _Factor(NamedTuple):
    """A table over some variables, one axis each."""

    scope: tuple[int, ...]
    table: NDArray[np.float64]


class _Bounds(NamedTuple):
    """A variable's law as words, per row of its table.

    Who is in row i and draws word w has category ``firsts[i]`` plus the number of ``lasts[i]`` that
    are below w. Shapes (rows,) and (rows, categories - 1).
    """

    firsts: NDArray[np.int64]
    lasts: NDArray[np.uint64]


class Network(msgspec.Struct, frozen=True, dict=True):
    """A joint distribution of categorical variables, each given its parents.

    Raises:
        SurveyError: no variable, an invalid or repeated name or category, or an unknown or repeated
            parent.
        ValueError: the parents form a cycle, or the rows of a variable are not one distribution for
            each combination of its parents' categories.
    """

    title: str
    variables: tuple[Variable, ...]

    def __post_init__(self) -> None:
        # Refused here, before any sampling.
        _ = self.survey, self._order
        for variable, parents in zip(self.variables, self._parents, strict=True):
            wanted = math.prod(self.survey.sizes[place] for place in parents)
            if len(variable.rows) != wanted:
                raise ValueError(
                    f"variable {shown(variable.name)}: {len(variable.rows)} rows, expected one for "
                    "each combination of its parents' categories"
                )
            size = len(variable.categories)
            for number, row in enumerate(variable.rows, 1):
                if len(row) != size or min(row) < 0 or sum(row) != 1:
                    raise ValueError(
                        f"variable {shown(variable.name)}, row {number}: expected {size} "
                        "probabilities with a sum of 1"
                    )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables, in the order of the file."""
        return self.survey.names

    @property
    def categories(self) -> tuple[tuple[str, ...], ...]:
        """The categories of each variable."""
        return tuple(variable.categories for variable in self.variables)

    @cached_property
    def survey(self) -> Survey:
        """One nominal attribute per variable, in the order of the file."""
        return Survey(
            self.title,
            tuple(
                Attribute(name=variable.name, categories=variable.categories)
                for variable in self.variables
            ),
        )

    @cached_property
    def _parents(self) -> tuple[tuple[int, ...], ...]:
        return tuple(self.survey.axes(variable.parents) for variable in self.variables)

    @cached_property
    def _order(self) -> tuple[int, ...]:
        """Places of the variables, parents before children."""
        try:
            return tuple(graphlib.TopologicalSorter(dict(enumerate(self._parents))).static_order())
        except graphlib.CycleError as error:
            raise ValueError("the parents form a cycle") from error

    def sample(self, n: int, stream: Stream) -> Records:
        """Draw independent respondents, each from the parents to the children.

        The probabilities are the rows of the tables, each cumulated and rounded down to a multiple
        of 2**-64. Every variable has a child stream of its own and takes one word per respondent,
        so the first respondents of a larger sample are those of a smaller one.

        Args:
            n: how many, at least 1.
            stream: from which the variables' streams are derived; none of its own words is drawn.

        Returns:
            Records of ``survey``, shape (n, m).

        Raises:
            ValueError: n below 1.
        """
        if n < 1:
            raise ValueError(f"a sample of {n} respondents: expected at least 1")
        sizes = self.survey.sizes
        codes = np.empty((len(sizes), n), self.survey.dtype)
        for place in self._order:
            row = np.zeros(n, np.int64)
            for parent in self._parents[place]:
                row *= sizes[parent]
                row += codes[parent]
            firsts, lasts = self._bounds[place]
            words = stream.derive(f"variable {self.names[place]}").words(n)
            drawn = firsts[row]
            for last in lasts.T:
                drawn += words > last[row]
            codes[place] = drawn
        return Records(self.survey, codes.T)

    def population(self) -> Population:
        """The network's joint distribution, to draw respondents from."""
        return Law(self.survey, f"the Bayesian network {self.title!r}", self.sample)

    @cached_property
    def _bounds(self) -> tuple[_Bounds, ...]:
        return tuple(_bounds(variable) for variable in self.variables)

    def distribution(self, names: Sequence[str]) -> NDArray[np.float64]:
        """The joint distribution of some variables, one axis each, in the order given.

        Exact but for rounding errors: the variables that those asked for descend from are summed
        out one after another, the one that needs the smallest table first.

        Raises:
            SurveyError: an unknown or repeated name.
            ValueError: a table of more than 2**22 cells would be needed on the way.
        """
        asked = self.survey.axes(names)
        needed = self._ancestors(asked)
        factors = [self._factor(place) for place in sorted(needed)]
        cost = {place: self._cells(_union(factors, place)) for place in sorted(needed - set(asked))}
        while cost:
            # Ties go to the first variable, so that the result is the same on every run.
            place = min(cost, key=cost.__getitem__)
            del cost[place]
            joined = self._product([factor for factor in factors if place in factor.scope])
            factors = [factor for factor in factors if place not in factor.scope]
            axis = joined.scope.index(place)
            scope = joined.scope[:axis] + joined.scope[axis + 1 :]
            factors.append(_Factor(scope, joined.table.sum(axis=axis)))
            for beside in cost.keys() & scope:
                cost[beside] = self._cells(_union(factors, beside))
        scope, table = self._product(factors)
        return np.array(table.transpose([scope.index(place) for place in asked]), order="C")

    def _ancestors(self, places: Iterable[int]) -> set[int]:
        found = set(places)
        # From the last to the first in the order, a child always comes before its parents.
        for place in reversed(self._order):
            if place in found:
                found.update(self._parents[place])
        return found

    def _factor(self, place: int) -> _Factor:
        scope = (*self._parents[place], place)
        rows = np.array([[float(p) for p in row] for row in self.variables[place].rows])
        return _Factor(scope, rows.reshape([self.survey.sizes[axis] for axis in scope]))

    def _cells(self, scope: Iterable[int]) -> int:
        return math.prod(self.survey.sizes[place] for place in scope)

    def _product(self, factors: Sequence[_Factor]) -> _Factor:
        scope: tuple[int, ...] = ()
        table: NDArray[np.float64] = np.ones(())
        # The widest first: it is copied once, and the others are spread over it.
        for factor in sorted(factors, key=lambda factor: -factor.table.size):
            union = (*scope, *(place for place in factor.scope if place not in scope))
            if self._cells(union) > MAX_CELLS:
                raise ValueError(
                    f"the distribution needs a table of {self._cells(union)} cells, "
                    f"more than {MAX_CELLS}"
                )
            label = dict(zip(union, ascii_letters, strict=False))
            old, new, both = (
                "".join(label[place] for place in places) for places in (scope, factor.scope, union)
            )
            table = np.einsum(f"{old},{new}->{both}", table, factor.table)
            scope = union
        return _Factor(scope, table)


def _union(factors: Iterable[_Factor], place: int) -> set[int]:
    return set().union(*(factor.scope for factor in factors if place in factor.scope))


def _bounds(variable: Variable) -> _Bounds:
    firsts, lasts = [], []
    for row in variable.rows:
        reached = [math.floor(WORDS * upto) for upto in accumulate(row[:-1])]
        # Who draws no word has no last one. Nobody draws more than 2**64 - 1, which therefore
        # stands where no word may be above: for these, and where all words are used up already.
        firsts.append(reached.count(0))
        lasts.append([upto - 1 if upto else WORDS - 1 for upto in reached])
    return _Bounds(np.array(firsts, np.int64), np.array(lasts, np.uint64))


def survey_network(data: Path | str | None) -> Network:
    """The Survey network: 6 variables, 14 categories (Scutari and Denis, 2014).

    RRBA's table 3 has 500 records of it; its tables 5 and 6 are of 8,000.

    Args:
        data: as for ``alarm_network``.

    Raises:
        DatasetError: as ``alarm_network``.
    """
    return _load("Survey", "survey.json", data)


def alarm_network(data: Path | str | None) -> Network:
    """The Alarm network: 37 variables, 105 categories (Beinlich and others, 1989).

    RRBA's table 3 says 103 categories; the file has 105. Six rows are
    written as three times 0.3333333 and become exact thirds.

    Args:
        data: a folder that holds ``alarm.json``: a list of objects with the fields of ``Variable``.
            Every row is divided by its exact sum. None means the folder that the environment
            variable SOTTOVOCE_DATA names, if it has such a file; else the copy that comes with this
            package is read. A file in a folder may be another network: its checksum is not asked
            for.

    Raises:
        DatasetError: no such file in ``data``, not a network, or a packaged copy that is damaged.
    """
    return _load("Alarm", "alarm.json", data)


def child_network(data: Path | str | None) -> Network:
    """The Child network: 20 variables, 60 categories (Spiegelhalter and Cowell, 1992).

    Args:
        data: as for ``alarm_network``.

    Raises:
        DatasetError: as ``alarm_network``.
    """
    return _load("Child", "child.json", data)


def _load(title: str, file: str, data: Path | str | None) -> Network:
    path = raw_file(data, [file])
    if path is None:
        return _decode(title, packaged(file))
    try:
        with path.open("rb") as opened:
            content = opened.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ValueError(f"more than {MAX_BYTES} bytes")
        return _decode(title, content)
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {reason(error)}") from error
    except ValueError as error:
        raise DatasetError(f"{path} is not a network: {error}") from error
    except RecursionError as error:
        raise DatasetError(f"{path} is not a network: nested too deeply") from error


def _decode(title: str, content: bytes) -> Network:
    variables = msgspec.json.decode(content, type=tuple[Variable, ...], dec_hook=_probability)
    return Network(
        title,
        tuple(
            msgspec.structs.replace(variable, rows=tuple(map(_normalize, variable.rows)))
            for variable in variables
        ),
    )


def _probability(kind: type, written: object) -> Fraction:
    """The exact value of a probability that is written in decimal."""
    if isinstance(written, int | float) and 0 <= written <= 1:
        return Fraction(str(written))
    raise ValueError("expected a probability")


def _normalize(row: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    total = sum(row, Fraction())
    return tuple(entry / total for entry in row) if abs(total - 1) <= ROW_TOLERANCE else row
