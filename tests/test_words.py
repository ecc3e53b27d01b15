"""Docstrings say what a thing is or does, and functions are named by it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("protocol", "parties", "transports", "scenarios")
BEGINNINGS = {
    "what",
    "whether",
    "which",
    "how",
    "who",
    "whose",
    "whom",
    "where",
    "when",
    "why",
    "as",
    "of",
    "by",
    "to",
    "in",
    "from",
    "with",
    "for",
    "at",
    "if",
    "not",
    "it",
    "that",
    "so",
    "nobody",
    "until",
    "since",
}
"""Words that ask or trail: a docstring that begins with one has to be read twice."""


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every docstring in a module, those of constants and fields too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text
        # A constant's or a field's stands below it.
        body = getattr(node, "body", None)
        for above, below in pairwise(body if isinstance(body, list) else ()):
            match above, below:
                case ast.Assign() | ast.AnnAssign(), ast.Expr(ast.Constant(str(text))):
                    yield below.lineno, text


def first_word(text: str) -> str:
    return text.split()[0].lower().strip("`*,.:;()")


def test_docstrings_begin_with_what_a_thing_is_or_does() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        for line, text in docstrings(path.read_text(encoding="utf-8"))
        if first_word(text) in BEGINNINGS
    ]
    assert found == []


def test_a_docstring_that_asks_is_found() -> None:
    module = (
        '"""Whether it rains."""\n\nN = 1\n"""How many."""\n\ndef f():\n    """Rain, in mm."""\n'
    )
    assert [first_word(text) in BEGINNINGS for _, text in docstrings(module)] == [True, True, False]


NAMED_OF = {"secret_of", "sizes_of", "quorum_of"}
"""Functions whose names end in ``_of``: of users' everyday words."""


def functions(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of every public function and method in a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_":
            yield node.lineno, node.name


def test_functions_are_named_by_what_they_do_or_return() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        for line, name in functions(path.read_text(encoding="utf-8"))
        if name.endswith("_of") and name not in NAMED_OF
    ]
    assert found == []


def test_a_function_that_is_named_by_its_argument_is_found() -> None:
    module = (
        "class A:\n    def head_of(self): ...\n    def _of(self): ...\n\ndef sign_head(): ...\n"
    )
    assert [name for _, name in functions(module)] == ["sign_head", "head_of"]
