"""The layers of the design, held by the imports of every module."""

from __future__ import annotations

import ast
import functools
import graphlib
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

PROJECT = Path(__file__).resolve().parents[1]
PACKAGES = ("protocol", "parties", "transports", "scenarios")
FORBIDDEN = {
    # Pure: no tasks, no network, no clock, no entropy, no files.
    "protocol": {
        "asyncio",
        "importlib",
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
FLOORS = {
    "protocol": (
        {"errors", "messages"},
        {"crypto", "wire"},
        {"randomizers", "surveys"},
        {"accounting", "estimators"},
        {"session"},
        {"transcript"},
        {"sharing"},
        {"audit", "variants"},
        {"simulation"},
        {"attack"},
        {"testing"},
    ),
    "scenarios": (
        {"streams"},
        {"errors"},
        {"wording"},
        {"files"},
        {"data"},
        {"running"},
        {"designing", "surveys"},
        {"statement"},
        {"report"},
        {"papers"},
        {"cli"},
        {
            "adult_surveys",
            "keyvalue",
            "marginals",
            "noisy_sums",
            "quickstart",
            "rrba",
            "town_means",
        },
        {"__main__"},
    ),
}
"""The rooms of a package, ground up: each imports from the floors below its own, and itself."""

MOST_FILES = 16
"""The most files in one folder, its ``__init__`` aside."""

OF_SEVERAL_FILES = {
    "protocol/transcript/witnesses",
    "scenarios/cli/options",
    "scenarios/report/page/answering",
    "scenarios/running/tabulating",
    "scenarios/surveys/resuming",
}
"""Folders of tests about a file or a matter that needs several."""

CALLS = {"open", "input", "print", "exec", "eval", "__import__"}
MODULES = [path for package in PACKAGES for path in sorted((PROJECT / package).rglob("*.py"))]


def shown(path: Path) -> str:
    return str(path.relative_to(PROJECT))


def modules_of(package: str) -> list[Path]:
    return [path for path in MODULES if path.relative_to(PROJECT).parts[0] == package]


@functools.cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


class Module(NamedTuple):
    """What there is to know of a module's source.

    Args:
        docstring: None if it has none.
        imports: the full names that it imports, wherever it does, and how many dots are before
            them.
        uses: what it uses of numpy's random numbers, and calls of what a pure module calls none of.
    """

    docstring: str | None
    imports: Sequence[tuple[str, int]]
    uses: Sequence[str]


@functools.cache
def parsed(source: str) -> Module:
    imports: list[tuple[str, int]] = []
    uses = []
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [(alias.name, 0) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imports += [(f"{node.module or ''}.{alias.name}", node.level) for alias in node.names]
        elif isinstance(node, ast.Attribute) and node.attr == "random":
            if ast.unparse(node) in ("np.random", "numpy.random"):
                uses.append(f"use of {ast.unparse(node)}")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            uses += [f"call of {node.func.id}"] * (node.func.id in CALLS)
    return Module(ast.get_docstring(tree), imports, uses)


def breaches(package: str, source: str) -> list[str]:
    """What a module of a package does against the layers."""
    module = parsed(source)
    found = []
    for name, level in module.imports:
        if level:
            found.append(f"relative import of {name}")
        if name.split(".")[0] in FORBIDDEN[package]:
            found.append(f"import of {name}")
        if package == "protocol" and name.startswith("numpy.random"):
            found.append(f"import of {name}")
        if name in ("datetime.datetime.now", "importlib.import_module"):
            found.append(f"import of {name}")
    return [*found, *module.uses] if package == "protocol" else found


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_keep_to_their_layer(package: str) -> None:
    found = {shown(path): breaches(package, text_of(path)) for path in modules_of(package)}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_says_what_lives_there(package: str) -> None:
    silent = [path for path in modules_of(package) if not parsed(text_of(path)).docstring]
    assert silent == []


def room_of(package: str, name: str) -> str | None:
    """The room of a package that the full name of a module, or of something in it, lies in."""
    parts = name.split(".")
    return parts[1] if parts[0] == package and len(parts) > 1 else None


def upward(package: str, room: str, source: str) -> list[str]:
    """What a module in a room imports from its own floor, from above or from the face."""
    floors = {name: floor for floor, rooms in enumerate(FLOORS[package]) for name in rooms}
    names = {name for name, _ in parsed(source).imports}
    others = {name: room_of(package, name) for name in names}
    face = {
        name for name, other in others.items() if name == package or (other and other not in floors)
    }
    return sorted(face) + [
        name
        for name, other in sorted(others.items())
        if other in floors and other != room and floors[other] >= floors[room]
    ]


@pytest.mark.parametrize("package", FLOORS)
def test_rooms_import_from_below(package: str) -> None:
    found = {}
    for path in set(modules_of(package)) - {PROJECT / package / "__init__.py"}:
        room = room_of(package, ".".join(path.relative_to(PROJECT).with_suffix("").parts))
        assert room is not None
        found[shown(path)] = upward(package, room, text_of(path))
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("package", "room", "source", "found"),
    [
        (
            "protocol",
            "wire",
            "from protocol.session.roles import Me",
            ["protocol.session.roles.Me"],
        ),
        (
            "protocol",
            "wire",
            "from protocol.crypto.merkle import Tree",
            ["protocol.crypto.merkle.Tree"],
        ),
        ("protocol", "wire", "import protocol.audit", ["protocol.audit"]),
        ("protocol", "wire", "from protocol import testing", ["protocol.testing"]),
        ("protocol", "testing", "from protocol import Variant", ["protocol.Variant"]),
        ("protocol", "testing", "from protocol import *", ["protocol.*"]),
        ("protocol", "testing", "import protocol", ["protocol"]),
        (
            "protocol",
            "wire",
            "from protocol.wire.arrays import unpack\nfrom protocol.messages import Left",
            [],
        ),
        (
            "scenarios",
            "running",
            "def f():\n    from scenarios.report.values import x",
            ["scenarios.report.values.x"],
        ),
        ("scenarios", "running", "from scenarios import report", ["scenarios.report"]),
        ("scenarios", "running", "from scenarios import simulate", ["scenarios.simulate"]),
        ("scenarios", "report", "from scenarios.statement.runs import x", []),
    ],
)
def test_imports_from_above_are_seen(
    package: str, room: str, source: str, found: list[str]
) -> None:
    assert upward(package, room, source) == found


def test_rooms_are_few_and_small() -> None:
    at_the_root = {path.stem for path in (PROJECT / "protocol").glob("*.py")} - {"__init__"}
    assert at_the_root == FLOORS["protocol"][0]
    for package in (*PACKAGES, "tests"):
        for folder in (PROJECT / package, *(PROJECT / package).rglob("*/")):
            # Python's own folder of compiled modules has files of old ones, too.
            if folder.name == "__pycache__":
                continue
            files = [path for path in folder.iterdir() if path.is_file()]
            face = ("__init__.py", "__init__.pyi", "py.typed")
            beside = [path for path in files if path.name not in face]
            assert len(beside) <= MOST_FILES, folder
    assert len(list((PROJECT / "scenarios").glob("*.py"))) <= 11


@pytest.mark.parametrize("package", PACKAGES)
def test_tests_lie_in_folders_of_the_rooms(package: str) -> None:
    rooms, tested = (
        {path.parent.relative_to(folder) for path in (folder / package).rglob(files)}
        for folder, files in ((PROJECT, "*.py"), (PROJECT / "tests", "test_*.py"))
    )
    assert {str(room) for room in tested - rooms} <= OF_SEVERAL_FILES


def test_every_package_has_modules() -> None:
    for package in PACKAGES:
        assert modules_of(package)


@pytest.mark.parametrize(
    ("package", "source"),
    [
        ("protocol", "import trio"),
        ("protocol", "import importlib"),
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
        ("protocol", "import numpy as np\nfrom protocol.crypto.randomness import Stream"),
        ("parties", "import trio\nfrom protocol.session.machine import Machine"),
        ("transports", "import ssl\nimport trio"),
        ("scenarios", "import parties.session, transports.tcp, protocol.session.local, pathlib"),
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


def circle(edges: dict[str, set[str]]) -> list[str]:
    """Modules each of which imports the next, the first and the last the same; empty if none do."""
    try:
        graphlib.TopologicalSorter(edges).prepare()
    except graphlib.CycleError as error:
        return [*error.args[1]]
    return []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports inside functions count: they hide a circle and do not open it."""
    names = {
        ".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in MODULES
    }
    edges = {}
    for name, path in names.items():
        full = {found for found, _ in parsed(text_of(path)).imports}
        homes = {each if each in names else each.rpartition(".")[0] for each in full}
        edges[name] = homes & set(names) - {name}
    assert circle(edges) == []
    assert sum(map(len, edges.values())) > len(edges)


def test_a_circle_is_seen() -> None:
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})) == {"a", "b", "c"}
    assert circle({"a": {"b", "c"}, "b": {"c"}}) == []
