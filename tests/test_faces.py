"""The two faces, ``protocol`` and ``scenarios``: what is imported from them, and at what cost."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

import protocol
import scenarios
from tests.scenarios.command import python
from tests.test_docs import PAGES, blocks_of

FACES = (protocol, scenarios)
FOR_USERS = {"protocol", "protocol.testing", "protocol.variants", "scenarios"}
"""The modules of the project that a page imports from."""


def folder_of(face: ModuleType) -> Path:
    assert face.__file__ is not None
    return Path(face.__file__).parent


def typed(face: ModuleType) -> dict[str, str]:
    """What a type checker is told: the module that each name is imported from."""
    tree = ast.parse((folder_of(face) / "__init__.py").read_text(encoding="utf-8"))
    [block] = (
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert len(imports) == len(block.body)
    return {alias.name: str(node.module) for node in imports for alias in node.names}


@pytest.mark.parametrize("face", FACES)
def test_a_name_is_what_a_type_checker_is_told(face: ModuleType) -> None:
    homes = typed(face)
    assert sorted(homes) == sorted(face.__all__)
    for name, home in homes.items():
        assert getattr(face, name) is getattr(importlib.import_module(home), name), name
    assert {name: home for home, names in face._HOMES.items() for name in names} == homes


@pytest.mark.parametrize("face", FACES)
def test_a_name_is_no_module(face: ModuleType) -> None:
    modules = {path.stem for path in folder_of(face).iterdir()}
    assert not modules & set(face.__all__)


@pytest.mark.parametrize("face", FACES)
def test_names_are_listed(face: ModuleType) -> None:
    assert set(face.__all__) <= set(dir(face))


@pytest.mark.parametrize("face", FACES)
def test_other_names_are_unknown(face: ModuleType) -> None:
    with pytest.raises(AttributeError, match=f"module '{face.__name__}' has no attribute 'nosuch'"):
        _ = face.nosuch
    with pytest.raises(ImportError, match="cannot import name 'nosuch'"):
        exec(f"from {face.__name__} import nosuch")


@pytest.mark.parametrize("face", FACES)
def test_a_face_costs_nothing_until_it_is_asked(face: ModuleType) -> None:
    program = f"import sys, {face.__name__}; print(*(sys.modules.keys() & {{'numpy', 'msgspec'}}))"
    said = python("-c", program)
    assert (said.code, said.out) == (0, "\n"), said


@pytest.mark.parametrize("page", [page for page in PAGES if not page.startswith("scenarios/")])
def test_pages_import_from_the_faces(page: str) -> None:
    own = {"parties", "protocol", "scenarios", "transports"}
    for block in blocks_of(page):
        if block.language == "python":
            for node in ast.walk(ast.parse(block.text)):
                if isinstance(node, ast.ImportFrom):
                    module = str(node.module)
                    assert module.split(".")[0] not in own or module in FOR_USERS, page
                    if module in FOR_USERS:
                        names = {alias.name for alias in node.names}
                        assert names <= set(sys.modules[module].__all__), (page, module)
                elif isinstance(node, ast.Import):
                    assert not own & {alias.name.split(".")[0] for alias in node.names}, page
