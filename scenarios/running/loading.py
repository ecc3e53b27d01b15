"""Scenarios and variants by name, or in a Python file that a person names."""

from __future__ import annotations

import hashlib
import importlib
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from parties.keeping.writing import reason
from protocol.errors import OtherCodeError, UsageError
from protocol.randomizers import Randomizer
from protocol.randomizers.vetting import is_randomizer
from protocol.session.variant import Variant
from protocol.surveys.survey import shown
from protocol.transcript.entries import Header
from protocol.variants import BUILT_IN
from protocol.variants.oracles.names import ORACLES
from scenarios.files.user_modules import run_module, user_module
from scenarios.running.names import MODULES, SCENARIOS
from scenarios.wording.hints import did_you_mean

if TYPE_CHECKING:
    from scenarios.running.scenario import Scenario


def scenarios_in(module: types.ModuleType) -> tuple[Scenario[Any], ...]:
    """The scenarios in a file's ``SCENARIOS``.

    Raises:
        UsageError: it does not define any.
    """
    # Imported late: members of surveys only need variants.
    from scenarios.running.scenario import Scenario

    found = getattr(module, "SCENARIOS", None)
    if not isinstance(found, tuple) or not all(isinstance(s, Scenario) for s in found) or not found:
        raise UsageError(f"{module.__file__}: expected SCENARIOS, a tuple of scenarios.Scenario")
    return found


def all_scenarios() -> tuple[Scenario[Any], ...]:
    """The built-in scenarios and reproductions, in the order of their files."""
    return tuple(s for name in MODULES for s in scenarios_in(importlib.import_module(name)))


def find_scenario(text: str) -> Scenario[msgspec.Struct]:
    """A scenario by its name, or as ``path.py`` or ``path.py:name``.

    Raises:
        UsageError: there is no such scenario.
    """
    path, name = split_path(text)
    if path is None:
        if text not in SCENARIOS:
            hint = did_you_mean(text, SCENARIOS)
            raise UsageError(f"no scenario {shown(text)}{hint or ';'} 'sottovoce list' lists all")
        return _scenario_named(text, scenarios_in(importlib.import_module(SCENARIOS[text])))
    module = load_module(path)
    candidates = scenarios_in(module)
    if name is not None:
        found = getattr(module, name, None)
        is_variant = isinstance(found, type) and issubclass(found, Variant)
        if is_variant and all(s.name != name for s in candidates):
            names = ", ".join(s.name for s in candidates)
            raise UsageError(
                f"{path}: {shown(name)} is a variant; expected a scenario, one of {names}"
            )
        return _scenario_named(name, candidates)
    if len(candidates) == 1:
        return candidates[0]
    names = ", ".join(s.name for s in candidates)
    raise UsageError(f"{path}: has several scenarios; expected {path}:NAME with one of {names}")


def _scenario_named(name: str, candidates: Sequence[Scenario[Any]]) -> Scenario[Any]:
    for scenario in candidates:
        if scenario.name == name:
            return scenario
    names = [s.name for s in candidates]
    hint = did_you_mean(name, names) or f"; expected one of {', '.join(names)}"
    raise UsageError(f"no scenario {shown(name)}{hint}")


def built_in_variant(name: str) -> type[Variant]:
    """A built-in variant by its name in a file, which must not choose what code runs.

    Raises:
        UsageError: the variant is unknown.
    """
    return _built_in(name, "For a variant of your own, pass --variant PATH.py:Class")


def find_variant(text: str) -> type[Variant]:
    """A variant's class by its name, or as ``path.py:Class``.

    Raises:
        UsageError: the variant is unknown.
    """
    path, name = split_path(text)
    if path is None:
        return _built_in(text, "For a variant of your own, give PATH.py:Class")
    if name is None:
        raise UsageError(f"{path}: expected {path}:Class")
    return variant_in(load_module(path), name)


def variant_in(module: types.ModuleType, name: str) -> type[Variant]:
    """A variant's class in a file that has been run.

    Raises:
        UsageError: the variant is unknown.
    """
    found = getattr(module, name, None)
    if not (isinstance(found, type) and issubclass(found, Variant)):
        raise UsageError(f"{module.__file__}: no variant class {shown(name)}")
    return found


def variant_class(header: Header, named: str | None) -> type[Variant]:
    """The class of a transcript's variant: the one that was named, or else the built-in one.

    A file is run only if the session binds that file, or none.

    Raises:
        UsageError: the variant is unknown, or a file is named for a built-in variant.
        OtherCodeError: another file is named than the session binds.
    """
    # Names in a transcript are looked up, never loaded.
    if named is None:
        return built_in_variant(header.variant)
    path, _ = split_path(named)
    if path is not None and path.is_file():
        if header.code is None and header.variant in BUILT_IN:
            raise UsageError(
                f"{named}: the transcript is of the built-in variant {header.variant}; expected no "
                "--variant"
            )
        given = hashlib.sha256(path.read_bytes()).digest()
        if header.code not in (None, given):
            raise OtherCodeError(header.code or b"", given)
    return find_variant(named)


def find_attackable(text: str) -> type[Variant] | Randomizer | Callable[[object], object]:
    """A variant's class, or a randomizer or function (``path.py:NAME``), to attack.

    Raises:
        UsageError: the variant, randomizer or function is unknown.
    """
    path, name = split_path(text)
    if path is None or name is None:
        return find_variant(text)
    found = getattr(load_module(path), name, None)
    if isinstance(found, type) and issubclass(found, Variant):
        return found
    if is_randomizer(found):
        return found
    if isinstance(found, type) or not callable(found):
        raise UsageError(f"{path}: no variant class, randomizer or function {shown(name)}")
    client: Callable[[object], object] = found
    return client


def _built_in(name: str, hint: str) -> type[Variant]:
    if name not in BUILT_IN:
        family, colon, way = name.partition(":")
        if colon and family in BUILT_IN:
            raise UsageError(f"no variant {shown(name)}; {_way_parameters(BUILT_IN[family], way)}")
        near = did_you_mean(name, BUILT_IN) or f"; expected one of {', '.join(BUILT_IN)}."
        raise UsageError(f"no variant {shown(name)}{near} {hint}")
    return BUILT_IN[name]


def _way_parameters(cls: type[Variant], way: str) -> str:
    """Parameters of one of a variant's candidates, under the name that designs give it."""
    if "oracle" not in cls.__struct_fields__:
        return (
            f"expected variant = \"{cls.name}\" with the parameters that 'sottovoce design --json' "
            "has for it"
        )
    known = f'"{way}"' if way in ORACLES else f"one of {', '.join(ORACLES)}"
    return f'expected variant = "{cls.name}" and oracle = {known}'


def load_module(path: Path) -> types.ModuleType:
    """Run a Python file as a module; only ever one that a person named.

    Raises:
        UsageError: there is no such file, or it fails.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    try:
        source = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {reason(error)}") from error
    return run_module(user_module(path.stem, str(path), source))


def split_path(text: str) -> tuple[Path | None, str | None]:
    """The path and the name in ``path.py:name``; a path ends in ``.py``."""
    head, colon, tail = text.rpartition(":")
    if colon and head.endswith(".py"):
        return Path(head), tail or None
    return (Path(text), None) if text.endswith(".py") else (None, None)
