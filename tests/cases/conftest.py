"""Collects case files: each is a test, which fails with a diff of its output."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cases.reading import is_slow, run_case


class Differs(Exception):
    """The output differs from what the case expects."""


class Case(pytest.Item):
    """Commands of one file, run one after the other."""

    obj = None  # pytest-trio asks every test for it, as do doctests.

    def runtest(self) -> None:
        text = self.path.read_text(encoding="utf-8")
        came = run_case(text)
        if came != text:
            lines = (each.splitlines() for each in (text, came))
            raise Differs("\n".join(difflib.unified_diff(*lines, "expected", "came", lineterm="")))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, Differs):
            return f"{excinfo.value}\n\nIf that is right: python -m tests.cases {self.path}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, str(self.path)


class CaseFile(pytest.File):
    """Case file, which is one test."""

    def collect(self) -> Iterator[Case]:
        case = Case.from_parent(self, name="case")
        if is_slow(self.path.read_text(encoding="utf-8")):
            case.add_marker("slow")
        yield case


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> CaseFile | None:
    return CaseFile.from_parent(parent, path=file_path) if file_path.suffix == ".txt" else None
