"""Kernels for tests of engines."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import NoReturn

import msgspec
import numpy as np

from protocol import QuorumError


class Locked(Exception):
    """An error that does not survive pickling."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


class Marked(msgspec.Struct, frozen=True):
    """A number, and a file that is there once a worker had begun with it."""

    number: int
    mark: Path


def square(number: int) -> int:
    return number * number


def solved(size: int) -> bytes:
    """Of a system of linear equations, whose last digits depend on how many threads solve it."""
    generator = np.random.default_rng(size)
    found: bytes = np.linalg.solve(*generator.normal(size=(2, size, size))).tobytes()
    return found


def size(content: bytes) -> int:
    return len(content)


def later(number: int) -> int:
    """Its number, the later the smaller."""
    time.sleep(0.02 * (8 - number))
    return number


def slowly(number: int) -> int:
    time.sleep(0.5)
    return number * number


def alone(folder: Path) -> bool:
    """Whether no other task of this kind is carried out at the same time."""
    lock = folder / "lock"
    try:
        lock.mkdir()
    except FileExistsError:
        return False
    time.sleep(0.3)
    lock.rmdir()
    return True


def worker(_: object) -> int:
    return os.getpid()


def prints(text: str) -> str:
    print(text)
    return sys.stdin.read()


def fails_at_three(number: int) -> int:
    if number == 3:
        raise ValueError(f"number {number}")
    return number


def misses(parties: tuple[str, ...]) -> NoReturn:
    raise QuorumError(kind="Report", answered=1, at_least=3, missing=parties)


def locks(text: str) -> NoReturn:
    raise Locked(text)


def unsendable(_: object) -> object:
    return lambda: None


def dies(_: object) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def exits(code: int) -> NoReturn:
    os._exit(code)


def dies_once(marked: Marked) -> int:
    """Killed the first time; its number the next."""
    if not marked.mark.exists():
        marked.mark.touch()
        dies(None)
    return marked.number


def lasts(mark: Path) -> None:
    """Says that it began, and goes on for long."""
    mark.write_text(str(os.getpid()), encoding="utf-8")
    time.sleep(60)
