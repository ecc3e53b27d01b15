"""Python files that a person named, run as modules, with their source: workers run it again."""

from __future__ import annotations

import hashlib
import os
import sys
from types import ModuleType
from typing import NamedTuple

from protocol.errors import UsageError

_PREFIX = "sottovoce_user_"
_SOURCE = "__sottovoce_source__"


class UserModule(NamedTuple):
    """A file that a person named.

    Args:
        name: the module's name.
        path: path of the file, as named by the user.
        folder: the file's folder, from which it can import.
        source: content of the file.
    """

    name: str
    path: str
    folder: str
    source: bytes


def user_module(stem: str, path: str, source: bytes) -> UserModule:
    """A file as a module, under a name that no other module has."""
    return UserModule(f"{_PREFIX}{stem}", path, os.path.dirname(os.path.abspath(path)), source)


def run_module(wanted: UserModule, *, alone: bool = False) -> ModuleType:
    """Run a file as a module.

    Its imports are also searched in its folder, but last, so that no file there hides another
    module.

    Args:
        wanted: the file.
        alone: do not look in its folder.

    Raises:
        UsageError: it fails.
    """
    name, path, folder, source = wanted
    if not alone and folder not in sys.path:
        sys.path.append(folder)
    module = ModuleType(name)
    module.__file__ = path
    setattr(module, _SOURCE, wanted)
    # msgspec resolves annotations by the module's name.
    sys.modules[name] = module
    try:
        exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        where = _line_in(error, path)
        raise UsageError(f"{path}{where}: {type(error).__name__}: {error}") from error
    _mark(module, wanted)
    return module


def loaded_user_module(name: str) -> UserModule | None:
    """The file that a module of this process was run from; None if no person named one."""
    found: UserModule | None = getattr(sys.modules.get(name), _SOURCE, None)
    return found


def _mark(module: ModuleType, wanted: UserModule) -> None:
    """Record the user's file on all variants that it defines or imports from its folder."""
    from protocol.session.variant import Variant

    code = hashlib.sha256(wanted.source).digest()
    for found in vars(module).values():
        if not (isinstance(found, type) and issubclass(found, Variant)):
            continue
        variant: type[Variant] = found
        home = sys.modules.get(variant.__module__)
        file = getattr(home, "__file__", None) or ""
        if home is module or getattr(home, variant.__name__, None) is not variant:
            variant.code = code
        elif os.path.dirname(os.path.abspath(file)) == wanted.folder and os.path.isfile(file):
            with open(file, "rb") as beside:
                variant.code = hashlib.sha256(beside.read()).digest()


def _line_in(error: BaseException, path: str) -> str:
    from protocol.errors import ProtocolError

    if isinstance(error, SyntaxError | ProtocolError):
        return ""
    trace, line = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f":{line}" if line else ""
