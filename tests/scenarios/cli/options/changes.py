"""A call of a command without an option and one with it, and what is looked at of both."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
from cryptography import x509

from tests.scenarios.cli.options.inputs import Inputs
from tests.scenarios.command import command_of, sottovoce

CRASHED, REFUSED = 70, 2

_SECONDS = re.compile(r"\b[0-9.]+ m?s\b|\"seconds\": [0-9.e-]+")


class Seen(NamedTuple):
    """What can be looked at of a call.

    Args:
        code: its exit code.
        out, err: what it printed.
        files: what is in its working folder afterwards, by path.
        passed: what it passed on to something that stood in for the real one.
    """

    code: int
    out: str
    err: str
    files: dict[str, bytes]
    passed: list[object]


Look = Callable[[Seen], object]
Spy = Callable[[pytest.MonkeyPatch, list[object], Inputs], None]


Case = tuple[str | None, Look]
"""The value of an option, None of a flag, and what it changes."""


class Call(NamedTuple):
    """A command line, and what is shown with it of the options that it is extended by.

    Args:
        words: the command line, with the names of inputs in braces.
        cases: by option.
        copies: inputs that are copied into the working folder, because the command changes them.
        spy: puts something in the place of what is slow, or of the network.
        dear: whether it is in the whole tier only, because tests beside the command are of the same
            options.
    """

    words: str
    cases: Mapping[str, Case]
    copies: tuple[str, ...] = ()
    spy: Spy | None = None
    dear: bool = False

    @property
    def command(self) -> str:
        return self.words.split()[0]


# What is looked at


def code(seen: Seen) -> object:
    return seen.code


def out(seen: Seen) -> object:
    """What it printed, but for how long it took."""
    return _SECONDS.sub("", seen.out)


def err(seen: Seen) -> object:
    return seen.err


def files(seen: Seen) -> object:
    return seen.files


def names(seen: Seen) -> object:
    """Of files whose content is drawn."""
    return sorted(seen.files)


def passed(seen: Seen) -> object:
    return seen.passed


def refusal(seen: Seen) -> object:
    """What it says where it refuses a value that is well formed."""
    return seen.err if seen.code == REFUSED else None


def roster(seen: Seen) -> object:
    """Members on the roster in the aggregator's folder."""
    [content] = [text for path, text in seen.files.items() if path.endswith("roster.json")]
    return [name for name, _ in json.loads(content)["members"]]


def links(seen: Seen) -> object:
    """Beginnings of the links, and the number of pictures."""
    [table] = [text for path, text in seen.files.items() if path.endswith("links.csv")]
    [page] = [text for path, text in seen.files.items() if path.endswith("links.html")]
    return [line.split(b"#")[0] for line in table.splitlines()], page.count(b"<svg")


def validity(seen: Seen) -> object:
    """For how long the certificates in its files are valid."""
    found = [
        x509.load_pem_x509_certificate(content)
        for path, content in seen.files.items()
        if path.endswith("certificate.pem")
    ]
    return {each.not_valid_after_utc - each.not_valid_before_utc for each in found}


def values(*path: str) -> Look:
    """A part of what is printed as JSON."""

    def look(seen: Seen) -> object:
        assert seen.out, seen.err
        found: Any = json.loads(seen.out)
        for name in path:
            found = found[name]
        return found

    return look


# How it is found out


def call(inputs: Inputs, base: Call, folder: Path, *more: str) -> Seen:
    """Call the command in a folder of its own."""
    folder.mkdir(parents=True)
    for name in base.copies:
        shutil.copytree(inputs[name], folder / name)
    words = [word.format_map(inputs) for word in shlex.split(base.words)]
    given: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "250")
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        if base.spy is not None:
            base.spy(patch, given, inputs)
        said = sottovoce(*words, *more)
    written = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    return Seen(said.code, said.out, said.err, written, given)


def without_effect(inputs: Inputs, base: Call, folder: Path) -> list[str]:
    """What is wrong with the cases of a call: above all, options that change nothing.

    A value that is printed back is no effect: it is masked, and so is what it stands in for.
    """
    first, again = (call(inputs, base, folder / name) for name in ("first", "again"))
    wrong = []
    for place, (option, (value, look)) in enumerate(base.cases.items()):
        more = [] if value is None else [word.format_map(inputs) for word in shlex.split(value)]
        seen = call(inputs, base, folder / str(place), option, *more)
        said = f"{base.command} {' '.join((option, *more))}"
        mask = _mask(base, option, more, inputs)
        # An input that is drawn, or a clock, would make any option look as if it had an effect.
        if look(_masked(first, mask)) != look(_masked(again, mask)):
            wrong.append(f"{said}: what is looked at changes by itself")
        elif seen.code == CRASHED or first.code == CRASHED:
            wrong.append(f"{said}: crashed: {seen.err or first.err}")
        elif seen.code == REFUSED and look is not refusal:
            wrong.append(f"{said}: refused: {seen.err}")
        elif look(_masked(first, mask)) == look(_masked(seen, mask)):
            wrong.append(f"{said}: changes nothing that is looked at")
    return wrong


def _mask(base: Call, option: str, more: list[str], inputs: Inputs) -> re.Pattern[str] | None:
    """The value of an option, and the one without it."""
    command = command_of(base.command)
    assert command is not None
    [parameter] = [each for each in command.params if option in (*each.opts, *each.secondary_opts)]
    assert isinstance(parameter, click.Option)
    words = [word.format_map(inputs) for word in shlex.split(base.words)]
    before = [words[i + 1] for i, word in enumerate(words[:-1]) if word == option]
    usual = [] if parameter.is_flag else [str(parameter.default)]
    masked = [re.escape(word) for word in {*more, *before, *usual} if word]
    return re.compile(rf"(?<![\w.])(?:{'|'.join(masked)})(?![\w.])") if masked else None


def _masked(seen: Seen, mask: re.Pattern[str] | None) -> Seen:
    """The same with a zero for each of these words; JSON stays JSON."""
    if mask is None:
        return seen
    return seen._replace(out=mask.sub("0", seen.out), err=mask.sub("0", seen.err))
