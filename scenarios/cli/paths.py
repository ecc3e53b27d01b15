"""Types of arguments and options for files; no command overwrites its own input.

Every path on a command line is of one of these types, which remember it for the command. An output
that is a file the command reads, or that another of its options writes, is refused while the
command line is read, before any work.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from protocol.errors import UsageError

_NAMED = "scenarios.cli.paths"


class _Named(NamedTuple):
    """A path on the command line.

    Args:
        parameter: the parameter that names it.
        path: path of a file, or of a folder that is read.
        written: whether the command writes it.
        alone: whether an option asks for this file alone, not for a folder of files.
    """

    parameter: click.Parameter
    path: Path
    written: bool
    alone: bool = True


class ReadPath(click.Path):
    """A file or folder that the command reads, or a folder that it alone uses."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        _note(ctx, param, [Path(os.fsdecode(path))], written=False)
        return path


class WrittenFile(click.Path):
    """A file that the command writes; where ``-`` is allowed, it means standard output."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        if not (self.allow_dash and path == "-"):
            _note(ctx, param, [Path(os.fsdecode(path))], written=True)
        return path


class WrittenFolder(click.Path):
    """A folder that the command writes files into.

    Args:
        names: names of the written files, as far as they are known beforehand.
    """

    def __init__(self, *names: str) -> None:
        super().__init__(path_type=Path, file_okay=False)
        self.name = "folder"
        self._names = names

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        folder: Any = super().convert(value, param, ctx)
        _note(ctx, param, [folder / name for name in self._names], written=True, alone=False)
        return folder


class TextWithFile(click.types.StringParamType):
    """A text that may name a file which the command reads, with something before or after it.

    Such as ``PATH.py:NAME``, ``PARTY=FILE``, or several with commas between them.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = super().convert(value, param, ctx)
        parts = {text, text.partition("=")[2], *text.split(",")}
        parts |= {part.rpartition(":")[0] for part in parts}
        paths = [Path(part.strip()) for part in parts if part.strip() and "\0" not in part]
        _note(ctx, param, paths, written=False)
        return text


READ_FILE = ReadPath(path_type=Path, dir_okay=False)
READ_FOLDER = ReadPath(path_type=Path, file_okay=False)
READ_FOLDER.name = "folder"
READ_PATH = ReadPath(path_type=Path)
WRITTEN_FILE = WrittenFile(path_type=Path, dir_okay=False)
WRITTEN_LOG = WrittenFile(dir_okay=False, allow_dash=True)
NEW_FOLDER = WrittenFolder()
TEXT_WITH_FILE = TextWithFile()


def _note(
    ctx: click.Context | None,
    param: click.Parameter | None,
    paths: list[Path],
    *,
    written: bool,
    alone: bool = True,
) -> None:
    """Check paths against all earlier ones of this command, and remember them.

    Raises:
        UsageError: the command would write over what it reads, or write a file twice.
    """
    if ctx is None or param is None or ctx.resilient_parsing:
        return
    others: list[_Named] = ctx.meta.setdefault(_NAMED, [])
    new = [_Named(param, path, written, alone) for path in paths]
    for mine in new:
        for other in others:
            if other.parameter is not param:
                for one, another in _pairs(mine, other):
                    _check(one, another)
    others += new


def _pairs(mine: _Named, other: _Named) -> Iterator[tuple[_Named, _Named]]:
    """Pairs of a written path and a path to compare it with."""
    both = [each for each in (mine, other) if each.written]
    if len(both) == 1:
        yield both[0], other if both[0] is mine else mine
    elif both:
        yield (mine, other) if mine.alone else (other, mine)


def _check(output: _Named, other: _Named) -> None:
    path, option = output.path, _option_name(output.parameter)
    another = _option_name(other.parameter)
    if _are_same(path, other.path):
        says = "writes this file" if other.written else "is this file, which is read"
        if not output.alone:
            raise UsageError(
                f"{another} {other.path}: {option} writes this file; give another name"
            )
        raise UsageError(f"{option} {path}: {another} {says}; give another name")
    if output.alone and not other.written and _is_within(path, other.path):
        raise UsageError(
            f"{option} {path}: exists in {another}, a folder that is read; give another name"
        )


def _option_name(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Option):
        return max(parameter.opts, key=len)
    return (parameter.metavar or parameter.human_readable_name).strip("[]")


def _are_same(one: Path, other: Path) -> bool:
    """Check whether two paths lead to one file, whether or not it exists yet."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        # A path that cannot be resolved cannot be written either.
        return os.path.realpath(one) == os.path.realpath(other)


def _is_within(path: Path, folder: Path) -> bool:
    """Check whether a path leads to an existing file somewhere below a folder."""
    real = os.path.realpath(folder)
    return path.is_file() and os.path.isdir(real) and Path(real) in Path(path).resolve().parents
