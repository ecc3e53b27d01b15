"""The layers of the design, held by the imports of every module."""

from __future__ import annotations

import ast
import importlib
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PACKAGES = ("protocol", "parties", "transports", "scenarios")
FORBIDDEN = {
    # Pure: no tasks, no network, no clock, no entropy, no files.
    "protocol": {
        "asyncio",
        "io",
        "os",
        "parties",
        "pathlib",
        "random",
        "scenarios",
        "secrets",
        "select",
        "shutil",
        "socket",
        "ssl",
        "subprocess",
        "tempfile",
        "threading",
        "time",
        "transports",
        "trio",
    },
    "parties": {"asyncio", "scenarios", "socket", "ssl", "transports"},
    "transports": {"asyncio", "parties", "scenarios"},
    "scenarios": {"asyncio"},
}
CALLS = {"open", "input", "print", "exec", "eval", "__import__"}
MODULES = [path for package in PACKAGES for path in sorted((PROJECT / package).rglob("*.py"))]


def shown(path: Path) -> str:
    return str(path.relative_to(PROJECT))


def imported(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The full names that a module imports, wherever it does, and how many dots are before them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, 0
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield f"{node.module or ''}.{alias.name}", node.level


def breaches(package: str, source: str) -> list[str]:
    """What a module of a package does against the layers."""
    tree = ast.parse(source)
    found = []
    for name, level in imported(tree):
        if level:
            found.append(f"relative import of {name}")
        if name.split(".")[0] in FORBIDDEN[package]:
            found.append(f"import of {name}")
        if package == "protocol" and name.startswith("numpy.random"):
            found.append(f"import of {name}")
        if name in ("datetime.datetime.now", "importlib.import_module"):
            found.append(f"import of {name}")
    for node in ast.walk(tree):
        if package != "protocol":
            break
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("np.random", "numpy.random"):
            found.append(f"use of {ast.unparse(node)}")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
            found.append(f"call of {node.func.id}")
    return found


@pytest.mark.parametrize("path", MODULES, ids=shown)
def test_imports_keep_to_their_layer(path: Path) -> None:
    package = path.relative_to(PROJECT).parts[0]
    assert breaches(package, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", MODULES, ids=shown)
def test_every_module_says_what_lives_there(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


def test_every_package_has_modules() -> None:
    for package in PACKAGES:
        assert any(path.relative_to(PROJECT).parts[0] == package for path in MODULES)


@pytest.mark.parametrize(
    ("package", "source"),
    [
        ("protocol", "import trio"),
        ("protocol", "import os.path"),
        ("protocol", "from pathlib import Path"),
        ("protocol", "def f():\n    import time"),
        ("protocol", "from numpy import random"),
        ("protocol", "import numpy.random"),
        ("protocol", "import numpy as np\nnp.random.default_rng(1)"),
        ("protocol", "from transports.base import Link"),
        ("protocol", "from parties import actor"),
        ("protocol", "from .errors import ProtocolError"),
        ("protocol", "from . import errors"),
        ("protocol", "open('x')"),
        ("parties", "import transports.memory"),
        ("parties", "from scenarios import cli"),
        ("transports", "from parties.actor import Channel"),
        ("transports", "import scenarios"),
        ("scenarios", "from ..protocol import errors"),
    ],
)
def test_breaches_are_seen(package: str, source: str) -> None:
    assert breaches(package, source)


@pytest.mark.parametrize(
    ("package", "source"),
    [
        ("protocol", "import numpy as np\nfrom protocol.randomness import Stream"),
        ("parties", "import trio\nfrom protocol.machine import Machine"),
        ("transports", "import ssl\nimport trio"),
        ("scenarios", "import parties.session, transports.tcp, protocol.local, pathlib"),
    ],
)
def test_what_the_layers_allow(package: str, source: str) -> None:
    assert breaches(package, source) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_names_resolve_inside_this_project(package: str) -> None:
    module = importlib.import_module(package)
    assert module.__file__ is not None
    assert Path(module.__file__).resolve().parent == PROJECT / package
    assert not set(PACKAGES) & set(sys.stdlib_module_names)


def test_no_two_modules_import_each_other() -> None:
    edges: dict[str, set[str]] = {}
    for path in MODULES:
        name = ".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__")
        names = {n for n, _ in imported(ast.parse(path.read_text(encoding="utf-8")))}
        edges[name] = {n.rpartition(".")[0] for n in names} | names
    for one, other in itertools.combinations(edges, 2):
        assert not (other in edges[one] and one in edges[other]), (one, other)
