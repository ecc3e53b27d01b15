"""The two faces, ``protocol`` and ``scenarios``: what is imported from them, and at what cost."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import protocol
import protocol.testing
import protocol.variants
import scenarios
import sottovoce
from tests.scenarios.command import python
from tests.test_docs import PAGES, blocks_of

FACES = (protocol, scenarios)
FOR_USERS = {"protocol", "protocol.testing", "protocol.variants", "scenarios"}
"""The modules of the project that a page imports from."""

JSON = "objects of result.json, which go as deep as a scenario makes them"
UNTYPED = {
    "Stage.asked": "a question of the variant's own, which its own count takes",
    "Row.settings": "values of an experiment's own settings, which its own code takes",
    "Reproduced.result": JSON,
    "Row.values": JSON,
    "Statement.values": JSON,
    "Verdict.values": JSON,
    "statement_values": JSON,
}
"""What a user meets that is annotated with ``Any``, and why."""


def folder_of(face: ModuleType) -> Path:
    assert face.__file__ is not None
    return Path(face.__file__).parent


def typed(face: ModuleType) -> dict[str, str]:
    """What a type checker is told: the module that each name is imported from."""
    tree = ast.parse((folder_of(face) / "__init__.pyi").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert len(imports) == len(tree.body)
    homes = {}
    for node in imports:
        for alias in node.names:
            assert alias.asname == alias.name, "a type checker takes it for private"
            assert alias.name not in homes
            homes[alias.name] = f"{face.__name__}.{node.module}"
    return homes


@pytest.mark.parametrize("face", FACES)
def test_a_name_is_what_a_type_checker_is_told(face: ModuleType) -> None:
    homes = typed(face)
    assert sorted(homes) == sorted(face.__all__)
    for name, home in homes.items():
        assert getattr(face, name) is getattr(importlib.import_module(home), name), name


@pytest.mark.parametrize("face", FACES)
def test_a_name_is_no_module(face: ModuleType) -> None:
    modules = {path.stem for path in folder_of(face).iterdir()}
    assert not modules & set(face.__all__)


@pytest.mark.parametrize("face", [*FACES, protocol.variants])
def test_names_are_listed(face: ModuleType) -> None:
    assert set(face.__all__) <= set(dir(face))


@pytest.mark.parametrize("face", [*FACES, protocol.variants])
def test_other_names_are_unknown(face: ModuleType) -> None:
    with pytest.raises(AttributeError, match=f"{face.__name__} attribute nosuch"):
        _ = face.nosuch
    with pytest.raises(ImportError, match="cannot import name 'nosuch'"):
        exec(f"from {face.__name__} import nosuch")


def test_the_name_of_the_project_leads_to_both_faces() -> None:
    assert (sottovoce.protocol, sottovoce.scenarios) == FACES


def test_a_variant_is_what_a_type_checker_is_told() -> None:
    homes = typed(protocol.variants)
    assert sorted(homes) == sorted(protocol.variants.__all__)
    assert homes.pop("BUILT_IN") == "protocol.variants.built_in"
    for name, cls in protocol.variants.BUILT_IN.items():
        assert name == cls.name
        assert homes.pop(cls.__name__) == cls.__module__
        assert getattr(protocol.variants, cls.__name__) is cls
    assert homes == {}


def test_to_look_for_a_variant_imports_none() -> None:
    program = (
        "import sys; from protocol.variants import BUILT_IN; "
        "print(len(BUILT_IN), 'rrba' in BUILT_IN, 'rr' in BUILT_IN, [*BUILT_IN][0]); "
        "print(*(name for name in sys.modules if name.startswith('protocol.')))"
    )
    said = python("-c", program)
    assert said.out == (
        "20 True False rr-independent\nprotocol.variants protocol.variants.built_in\n"
    ), said


@pytest.mark.parametrize("face", [*FACES, protocol.variants])
def test_a_face_costs_nothing_until_it_is_asked(face: ModuleType) -> None:
    program = f"import sys, {face.__name__}; print(*(sys.modules.keys() & {{'numpy', 'msgspec'}}))"
    said = python("-c", program)
    assert (said.code, said.out) == (0, "\n"), said


def annotated(value: object) -> Iterator[tuple[str, str]]:
    """The functions, methods and fields that users of a function or class meet, as annotated."""
    if inspect.isfunction(value):
        yield from ((value.__qualname__, str(text)) for text in value.__annotations__.values())
    for cls in inspect.getmro(value) if inspect.isclass(value) else ():
        if cls.__module__.partition(".")[0] not in ("protocol", "scenarios", "transports"):
            continue
        fields = vars(cls).get("__annotations__", {})
        for name, text in fields.items():
            if not name.startswith("_"):
                yield f"{cls.__qualname__}.{name}", str(text)
        for name, member in vars(cls).items():
            for unwrapped in ("fget", "func", "__func__"):
                member = getattr(member, unwrapped, member)
            if not inspect.isfunction(member) or (name != "__init__" and name.startswith("_")):
                continue
            if member.__code__.co_filename != "<string>":  # made of a dataclass's fields
                yield from annotated(member)


def test_little_is_untyped() -> None:
    faces = (protocol, protocol.testing, protocol.variants, scenarios)
    found = {
        name
        for face in faces
        for public in face.__all__
        for name, text in annotated(getattr(face, public))
        if re.search(r"\bAny\b", text)
    }
    assert found == set(UNTYPED)


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
