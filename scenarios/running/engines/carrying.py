"""Tasks on their way to a worker, and their outcomes on the way back, as bytes.

Functions and classes travel by the names of their modules. Files that a person named are not
installed as modules, so their source travels with the task. Pickled by value, as cloudpickle does
it, a class of msgspec would lose its fields.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import traceback
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from protocol.errors import UsageError
from scenarios.errors import EngineError
from scenarios.files.user_modules import UserModule, loaded_user_module, run_module

A = TypeVar("A")
R = TypeVar("R")


class WorkerTraceback(Exception):
    """Traceback in a worker, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class _Packer(pickle.Pickler):
    """Pickles a task, and records which of the user's files it refers to."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.files: dict[str, UserModule] = {}

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, (type, FunctionType)):
            name = value.__module__
            if name == "__main__":
                raise UsageError(
                    f"{value.__qualname__!r} is defined in the script that was started, which "
                    "workers cannot import: put it into a module, and import it from there"
                )
            found = loaded_user_module(name)
            if found is not None:
                self.files[name] = found
        return NotImplemented


def own_files(value: object) -> tuple[UserModule, ...]:
    """The user's files that functions and classes in a value come from.

    If a value cannot be pickled, the files found before the failure.
    """
    packer = _Packer(io.BytesIO())
    with contextlib.suppress(UsageError, pickle.PicklingError, AttributeError, TypeError):
        packer.dump(value)
    return tuple(packer.files.values())


def packed(kernel: Callable[[A], R], argument: A) -> bytes:
    """A task as bytes.

    Raises:
        UsageError: it has something in it that no worker can find, or that cannot be pickled.
    """
    content = io.BytesIO()
    packer = _Packer(content)
    try:
        packer.dump((kernel, argument))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UsageError(
            f"cannot be handed to a worker: {error}; expected functions and classes defined at "
            "the top of a module"
        ) from error
    return pickle.dumps((tuple(packer.files.values()), content.getvalue()))


def unpacked(task: bytes) -> tuple[Callable[[Any], Any], Any]:
    """A task's kernel and its argument, where the modules of a person's files are made if need be.

    Raises:
        Exception: an error while unpacking, or of the user's file.
    """
    files, content = pickle.loads(task)
    for file in files:
        if loaded_user_module(file.name) != file:
            run_module(file)
    kernel, argument = pickle.loads(content)
    return kernel, argument


def carried_out(task: bytes) -> bytes:
    """Call a task's kernel; return its result or error."""
    try:
        kernel, argument = unpacked(task)
        return pickle.dumps((kernel(argument),))
    except Exception as error:
        return pickle.dumps((None, _error_as_bytes(error), traceback.format_exc()))


def _error_as_bytes(error: Exception) -> bytes:
    """An error as bytes that always decode, if only to its message."""
    try:
        content = pickle.dumps(error)
        if type(pickle.loads(content)) is type(error):
            return content
    except Exception:  # its class takes other arguments than an error keeps
        pass
    try:
        content = pickle.dumps(_Parts(type(error), error.args, error.__dict__))
        pickle.loads(content)
    except Exception:
        said = EngineError(f"a task failed: {type(error).__name__}: {error}")
        content = pickle.dumps(said)
    return content


class _Parts:
    """An error of any class, pickled by its parts."""

    def __init__(self, kind: type[Exception], args: tuple[Any, ...], state: dict[str, Any]) -> None:
        self._parts = kind, args, state

    def __reduce__(self) -> Any:
        return _of_parts, self._parts


def _of_parts(kind: type[Exception], args: tuple[Any, ...], state: dict[str, Any]) -> Exception:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


def kernel_result(outcome: bytes) -> Any:
    """Result of a kernel.

    Raises:
        Exception: the task's own error, caused by the worker's traceback.
    """
    result, *failed = pickle.loads(outcome)
    if failed:
        error, trace = failed
        raise pickle.loads(error) from WorkerTraceback(trace)
    return result
