"""Bayesian networks as text in the BIF format of the public repositories.

What is read: ``network``, then ``variable`` with ``type discrete`` and ``probability`` with a
``table`` (no parents) or with one row per combination of the parents' categories, in any order of
rows. A variable is declared before it is named. Comments and properties are ignored. Everything
else is refused, with the line where it stands.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import msgspec

from protocol.errors import SurveyError
from protocol.surveys.survey import Attribute, shown
from scenarios.datasets import DatasetError

MAX_CHARACTERS = 2**24
"""The longest text that is read."""

MAX_VARIABLES = 2**12
MAX_CATEGORIES = 2**8
"""The most categories of one variable."""

MAX_PROBABILITIES = 2**19
"""The most entries of all tables together."""

ROW_TOLERANCE = Fraction(1, 10**6)
"""How far a row may be from a sum of 1: thirds are written with seven digits."""

_TOKEN = re.compile(
    r"""
    (?P<blank> \s+ | //[^\n]* | /\*.*?\*/ )
    | (?P<mark> [{}()\[\],;|] )
    | "(?P<quoted> [^"\n]* )"
    | (?P<word> (?: (?! // | /\* ) [^\s{}()\[\],;|"] )+ )
    """,
    re.VERBOSE | re.DOTALL,
)

# Short and with a small exponent: the exact value of 1e999999999 would fill the memory.
_NUMBER = re.compile(
    r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,2})?"
)
_SIZE = re.compile(r"[0-9]{1,9}")


class Variable(msgspec.Struct, frozen=True, kw_only=True):
    """One variable of a network and its law given its parents.

    Attributes:
        name: unlike any other.
        categories: at least 2 of them.
        parents: the names of the variables that it depends on directly.
        rows: one distribution of exact fractions per combination of the parents' categories, in
            row-major order of the parents as listed; a single one without parents.
        renormalised: whether a row was not written with a sum of 1. Every row is divided by its
            exact sum.
    """

    name: str
    categories: tuple[str, ...]
    parents: tuple[str, ...]
    rows: tuple[tuple[Fraction, ...], ...]
    renormalised: bool = False


class _Token(NamedTuple):
    text: str
    line: int
    kind: str


class _Declared(NamedTuple):
    """A variable of which only the categories are known."""

    attribute: Attribute
    line: int


def read_bif(text: str) -> tuple[Variable, ...]:
    """The variables of a network, in the order in which they are declared.

    Raises:
        DatasetError: text that is too long or not BIF; an unknown, repeated or unfit name of a
            variable, parent or category; a variable without a table; a missing or repeated row; a
            wrong number of probabilities, a negative one, or a row that does not sum to 1 within
            1e-6; a cycle. The message names the line.
    """
    if len(text) > MAX_CHARACTERS:
        raise DatasetError(f"more than {MAX_CHARACTERS} characters")
    return _Reader(text).variables()


def topological(parents: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The places of variables with parents before children, else in the order given.

    Those on a cycle, and those that depend on one, are left out.

    Args:
        parents: the places of each variable's parents.
    """
    waiting = [len(places) for places in parents]
    children: list[list[int]] = [[] for _ in parents]
    for place, places in enumerate(parents):
        for parent in places:
            children[parent].append(place)
    ready = [place for place, count in enumerate(waiting) if not count]
    # The list grows while it is read: whoever has no parent left to wait for comes at its end.
    for place in ready:
        for child in children[place]:
            waiting[child] -= 1
            if not waiting[child]:
                ready.append(child)
    return tuple(ready)


class _Reader:
    """One pass over the tokens of a text; nothing calls itself, however deep a text may nest."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._line = 1
        self._declared: dict[str, _Declared] = {}
        self._tables: dict[str, tuple[Variable, int]] = {}
        self._entries = 0

    def variables(self) -> tuple[Variable, ...]:
        """Read the text to its end."""
        if self._keyword("'network'") != "network":
            raise self._wrong("expected 'network' first")
        self._network()
        while (token := next(self._tokens, None)) is not None:
            self._line = token.line
            match token.text if token.kind == "word" else None:
                case "variable":
                    self._variable()
                case "probability":
                    self._probability()
                case _:
                    raise self._wrong(
                        f"expected 'variable' or 'probability', got {shown(token.text)}"
                    )
        if not self._declared:
            raise self._wrong("no variable is declared")
        for name, declared in self._declared.items():
            if name not in self._tables:
                raise _wrong(declared.line, f"variable {shown(name)} has no probabilities")
        places = {name: place for place, name in enumerate(self._declared)}
        tables = [self._tables[name] for name in self._declared]
        order = topological(
            [[places[parent] for parent in variable.parents] for variable, _ in tables]
        )
        if len(order) < len(tables):
            variable, line = tables[min(set(places.values()) - set(order))]
            raise _wrong(
                line,
                f"variable {shown(variable.name)} depends on itself through its parents, or on one "
                "that does",
            )
        return tuple(variable for variable, _ in tables)

    def _network(self) -> None:
        token = self._take()
        if token.kind != "mark":
            self._mark("{")
        elif token.text != "{":
            raise self._wrong(f"expected a name or {{, got {shown(token.text)}")
        self._properties(frozenset())

    def _properties(self, allowed: frozenset[str]) -> str | None:
        """Skip properties up to the end of a block, or to one of the keywords, which is returned.

        A row of probabilities begins with a parenthesis instead.
        """
        while True:
            token = self._take()
            if token.kind == "mark" and token.text == "}":
                return None
            if token.kind != "quoted" and token.text in allowed:
                return token.text
            if token.kind != "word" or token.text != "property":
                raise self._wrong(f"{shown(token.text)} is not expected here")
            while (token := self._take()).kind != "mark" or token.text != ";":
                pass

    def _variable(self) -> None:
        line = self._line
        name = self._name("the name of a variable")
        if name in self._declared:
            raise self._wrong(f"variable {shown(name)} is declared twice")
        if len(self._declared) == MAX_VARIABLES:
            raise self._wrong(f"more than {MAX_VARIABLES} variables")
        self._mark("{")
        categories: list[str] | None = None
        while self._properties(frozenset({"type"})):
            if categories is not None:
                raise self._wrong(f"variable {shown(name)} has two types")
            categories = self._categories()
        if categories is None:
            raise self._wrong(f"variable {shown(name)} has no type")
        try:
            attribute = Attribute(name=name, categories=tuple(categories))
        except SurveyError as error:
            raise _wrong(line, f"not valid in a survey: {error}") from error
        self._declared[name] = _Declared(attribute, line)

    def _categories(self) -> list[str]:
        if (kind := self._keyword("'discrete'")) != "discrete":
            raise self._wrong(f"expected 'discrete', got {shown(kind)}")
        self._mark("[")
        size = self._name("the number of categories")
        self._mark("]")
        self._mark("{")
        categories = self._listed("a category", "}")
        self._mark(";")
        if not _SIZE.fullmatch(size) or int(size) != len(categories):
            raise self._wrong(f"{len(categories)} categories, declared as {shown(size)}")
        if len(categories) > MAX_CATEGORIES:
            raise self._wrong(f"more than {MAX_CATEGORIES} categories")
        return categories

    def _probability(self) -> None:
        line = self._line
        self._mark("(")
        attribute = self._known(self._name("the name of a variable"), "variable")
        name = attribute.name
        if name in self._tables:
            raise self._wrong(f"variable {shown(name)} has probabilities twice")
        parents: list[Attribute] = []
        if self._mark("|", ")") == "|":
            listed = self._listed("the name of a parent", ")")
            parents = [self._known(parent, "parent") for parent in listed]
            if len(set(listed)) < len(listed) or name in listed:
                raise self._wrong(f"a parent of {shown(name)} is repeated, or is itself")
        expected = math.prod(parent.size for parent in parents)
        self._entries += expected * attribute.size
        if self._entries > MAX_PROBABILITIES:
            raise self._wrong(f"the tables have more than {MAX_PROBABILITIES} entries")
        self._mark("{")
        rows: dict[int, tuple[Fraction, ...]] = {}
        renormalised = False
        while begun := self._properties(frozenset({"("} if parents else {"table"})):
            row = self._row(parents) if begun == "(" else 0
            if row in rows:
                raise self._wrong(f"variable {shown(name)}: this row is given twice")
            rows[row], uneven = self._distribution(attribute)
            renormalised |= uneven
        for row in range(expected):
            if row not in rows:
                given = f"row for {_combination(parents, row)}" if parents else "table"
                raise self._wrong(f"variable {shown(name)} has no {given}")
        variable = Variable(
            name=name,
            categories=attribute.categories,
            parents=tuple(parent.name for parent in parents),
            rows=tuple(rows[row] for row in range(expected)),
            renormalised=renormalised,
        )
        self._tables[name] = (variable, line)

    def _row(self, parents: list[Attribute]) -> int:
        """The place of a row among all combinations of the parents' categories."""
        given = self._listed("a category", ")")
        if len(given) != len(parents):
            raise self._wrong(f"{len(given)} categories for {len(parents)} parents")
        row = 0
        for parent, category in zip(parents, given, strict=True):
            try:
                row = row * parent.size + parent.code(category)
            except SurveyError as error:
                raise self._wrong(str(error)) from error
        return row

    def _distribution(self, attribute: Attribute) -> tuple[tuple[Fraction, ...], bool]:
        """A row of probabilities with a sum of exactly 1, and whether it had another before."""
        where = f"variable {shown(attribute.name)}"
        written = self._listed("a probability", ";")
        if len(written) != attribute.size:
            raise self._wrong(
                f"{where}: {len(written)} probabilities for {attribute.size} categories"
            )
        row = []
        for text in written:
            if not _NUMBER.fullmatch(text):
                raise self._wrong(f"{where}: {shown(text)} is not a probability")
            row.append(Fraction(text))
        if min(row) < 0:
            raise self._wrong(f"{where}: a negative probability")
        total = sum(row, Fraction())
        if abs(total - 1) > ROW_TOLERANCE:
            raise self._wrong(f"{where}: the probabilities sum to {float(total)}, expected 1")
        return tuple(entry / total for entry in row), total != 1

    def _known(self, name: str, what: str) -> Attribute:
        if name not in self._declared:
            raise self._wrong(f"unknown {what} {shown(name)}")
        return self._declared[name].attribute

    def _listed(self, what: str, end: str) -> list[str]:
        """Names with commas between them up to a mark."""
        names = [self._name(what)]
        while self._mark(",", end) == ",":
            names.append(self._name(what))
        return names

    def _take(self) -> _Token:
        token = next(self._tokens, None)
        if token is None:
            raise self._wrong("the text ends in the middle of a block")
        self._line = token.line
        return token

    def _name(self, what: str) -> str:
        token = self._take()
        if token.kind == "mark":
            raise self._wrong(f"expected {what}, got {shown(token.text)}")
        return token.text

    def _keyword(self, what: str) -> str:
        token = self._take()
        if token.kind != "word":
            raise self._wrong(f"expected {what}, got {shown(token.text)}")
        return token.text

    def _mark(self, *marks: str) -> str:
        token = self._take()
        if token.kind != "mark" or token.text not in marks:
            raise self._wrong(f"expected {' or '.join(marks)}, got {shown(token.text)}")
        return token.text

    def _wrong(self, message: str) -> DatasetError:
        return _wrong(self._line, message)


def _combination(parents: Sequence[Attribute], row: int) -> str:
    """The categories of the parents that a row is about, as an error message has them."""
    given: list[str] = []
    for parent in reversed(parents):
        row, code = divmod(row, parent.size)
        given.append(parent.categories[code])
    return shown(tuple(reversed(given)))


def _tokens(text: str) -> Iterator[_Token]:
    line, counted, position = 1, 0, 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        line += text.count("\n", counted, position)
        counted = position
        if found is None:
            what = "quotation" if text[position] == '"' else "comment"
            raise _wrong(line, f"a {what} that does not end")
        position = found.end()
        kind = found.lastgroup
        if kind is not None and kind != "blank":
            yield _Token(found[kind], line, kind)


def _wrong(line: int, message: str) -> DatasetError:
    return DatasetError(f"line {line}: {message}")
