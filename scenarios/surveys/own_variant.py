"""A user's own variant in a real survey: one file, equal for all members."""

from __future__ import annotations

import ast
import hashlib
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from protocol.errors import UsageError
from protocol.session.variant import Variant
from protocol.variants import BUILT_IN
from scenarios.files.user_modules import run_module, user_module
from scenarios.running.loading import split_path, variant_in

ALLOWED = ("protocol", "numpy")
"""Modules that a variant's file may import besides the standard library."""

Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class Pin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file that a variant is in.

    Args:
        digest: SHA-256 of its bytes, in hex.
        name: name of the class in the file.
    """

    digest: Digest
    name: str


def own_variant(text: str, pin: Pin | None = None) -> tuple[type[Variant], Pin]:
    """The class in a user's own file, ``PATH.py:Class``, with its pin.

    The file may import only this program, numpy and the standard library, and nothing from its
    folder. It is a program all the same: users must have read it before they run it.

    Args:
        text: the file and the class.
        pin: the expected file; by default any.

    Raises:
        UsageError: another file or class than is pinned, an import that is not allowed, or a file
            that cannot be run.
    """
    path, name = split_path(text)
    if path is None or name is None:
        raise UsageError(f"{text}: expected PATH.py:Class")
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    source = path.read_bytes()
    found = Pin(hashlib.sha256(source).hexdigest(), name)
    if pin is not None and found != pin:
        raise UsageError(
            f"{path}: the survey pins {pin.name} in a file with SHA-256 {pin.digest}; "
            f"this is {found.name} in one with {found.digest}"
        )
    _check_imports(path, source)
    module = run_module(user_module(path.stem, str(path), source), alone=True)
    cls = variant_in(module, name)
    if not cls.name or cls.name in BUILT_IN:
        raise UsageError(
            f"{path}: {name} has the name {cls.name!r}; expected one that is not a built-in "
            "variant's, which transcripts and audits tell it by"
        )
    twins = [
        other
        for other in vars(module).values()
        if isinstance(other, type) and issubclass(other, Variant) and other.name == cls.name
    ]
    if set(twins) != {cls}:
        raise UsageError(
            f"{path}: several variants are called {cls.name!r}; expected one, which transcripts "
            "and audits tell it by"
        )
    return cls, found


def _is_pythons(name: str) -> bool:
    """Check whether a module belongs to the standard library installed here.

    A name of the library's that is missing here could be any file.
    """
    if name not in sys.stdlib_module_names:
        return False
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        return False
    folders = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    return spec.origin in ("built-in", "frozen") or spec.origin.startswith(folders)


def _check_imports(path: Path, source: bytes) -> None:
    try:
        tree = ast.parse(source, filename=str(path))
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from error
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""] if node.level == 0 else ["." * node.level]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            top = name.partition(".")[0]
            if top not in ALLOWED and not _is_pythons(top):
                raise UsageError(
                    f"{path}:{node.lineno}: imports {name}; a variant of a real survey may import "
                    f"{', '.join(ALLOWED)} and the standard library"
                )
