"""Case files: commands run in one folder, each followed by its whole output.

The first character of a line decides:

- ``# text`` is a comment.
- ``slow``, alone on a line, puts the file in the slow tier.
- ``> NAME`` writes a file: the lines below, indented by two spaces.
- ``@ name ARGUMENTS`` calls a function of ``given.py``, ``records.py`` or ``purses.py``, which
  prepares files that take more than text.
- ``$ sottovoce ARGUMENTS`` runs a command. Below it stand the lines of stdout, indented by two
  spaces, the lines of stderr, each after ``! ``, and an exit code other than 0 in brackets, such
  as ``[2]``. ``$ cat NAME`` and ``$ ls NAME`` show files. A backslash at the end of a line
  continues a command.

In output that varies, ``...`` stands for any number of lines, and a name in ``PLACEHOLDERS`` for
part of a line. ``<here>`` is the case's folder, and ``<beside>/state`` the folder of its purse.

A command that ends with code 2 refuses something. It must print one line on stderr, without texts
of libraries, and leave all files as they are.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from parties.keeping.attempts import ATTEMPTS
from parties.keeping.members import SECRET
from tests.cases import given, purses, records
from tests.raw_data import VARIABLE
from tests.scenarios.command import Said, complaint, sottovoce

PLACEHOLDERS = {
    "<seconds>": r"\d+(?:\.\d+)?",
    "<names>": r"[\w-]+(?:, [\w-]+)*(?: and \d+ more)?",
    "<number>": r"\d[\d,]*",
    "<digest>": r"[0-9a-f]{64}",
    "<id>": r"[0-9a-f]{16}",
    "<base64>": r"[A-Za-z0-9+/]+=*",
    "<time>": r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|\+00:00)?",
    "<version>": r"\d+\.\d+[\w.+]*",
    "<place>": r"/\S+\.py:\d+",
}
"""Parts of lines that vary, by name: the regular expressions of their texts."""

_PREPARED = {**vars(given), **vars(purses), **vars(records)}
_VARYING = re.compile("|".join(map(re.escape, PLACEHOLDERS)))
_ANY = re.compile(r"<\w+>|[0-9a-f]{16,}|\d[\d.,:]*")
_SKIPPED = {"  ...": r"(?:  .*\n|\n)*?", "! ...": r"(?:! .*\n)*?"}
_BODY = re.compile(r"  |! |\[\d+\]$")
_FOREIGN = re.compile(
    r"Traceback|Errno|_ssl\.c|Expected `|Object (?:missing|contains)|codec can't|at `\$|zstd|"
    r"\(at line|valid (?:float|integer)|No such file or directory|magic bytes|RFC3339"
)
"""Texts of libraries and of the operating system, which refusals never show."""


class Step(NamedTuple):
    """Command, file or preparation, with the comments above it.

    Args:
        kind: ``$``, ``>`` or ``@``; empty at the end of the file.
        words: the words after that sign.
        head: the lines above the body, as they are in the file.
        body: the lines below: the content of a file, or the expected output of a command.
    """

    kind: str
    words: Sequence[str]
    head: Sequence[str]
    body: Sequence[str]


def read_steps(text: str) -> Iterator[Step]:
    """Read the steps of a case file.

    Raises:
        ValueError: a line is of no kind that the module's docstring lists.
    """
    lines, place, head = text.splitlines(), 0, list[str]()
    while place < len(lines):
        line = lines[place]
        place += 1
        head.append(line)
        if line[:2] not in ("$ ", "> ", "@ "):
            if line and not line.startswith("#") and line != "slow":
                raise ValueError(f"line {place}: expected a command, a file or a comment: {line!r}")
            continue
        typed = line[2:]
        while typed.endswith("\\"):
            head.append(lines[place])
            typed = typed[:-1] + lines[place].strip()
            place += 1
        end = place
        for below in range(place, len(lines)):
            if _BODY.match(lines[below]):
                end = below + 1
            elif lines[below]:
                break
        yield Step(line[0], shlex.split(typed), head, lines[place:end])
        head, place = [], end
    yield Step("", (), head, ())


def is_slow(text: str) -> bool:
    """Check for the line ``slow``."""
    return "slow" in text.splitlines()


def run_case(text: str) -> str:
    """Run a case in a folder of its own, and return its text with the actual output.

    Raises:
        AssertionError: a refusal prints more than one line or a library's text, or changes a file.
    """
    found = []
    with _folder() as here:
        for step in read_steps(text):
            found += step.head
            if step.kind == ">":
                _write(here / step.words[0], step.body)
            elif step.kind == "@":
                name, *arguments = step.words
                assert name in _PREPARED, f"no preparation {name!r}"
                _PREPARED[name](here, *arguments)
            found += _output(step, here) if step.kind == "$" else step.body
    return "".join(f"{line}\n" for line in found)


def _output(step: Step, here: Path) -> Sequence[str]:
    """Run a command, and return the expected lines if its output matches them, else new ones."""
    came = [
        line.replace(str(here), "<here>").replace(str(here.parent), "<beside>")
        for line in _lines(_run(step.words, here))
    ]
    if _pattern(step.body).fullmatch(_joined(came)):
        return step.body
    return updated(step.body, came)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """Enter an empty folder, with a purse of its own and no settings of the user's."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ):
        for name in (VARIABLE, "FORCE_COLOR"):
            os.environ.pop(name, None)
        os.environ.update(XDG_STATE_HOME=f"{folder}/state", COLUMNS="100")
        here = Path(folder).resolve() / "here"
        here.mkdir()
        with contextlib.chdir(here):
            yield here


def _write(path: Path, lines: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line[2:]}\n" for line in lines), encoding="utf-8")


def _run(words: Sequence[str], here: Path) -> Said:
    name, *arguments = words
    if name == "cat":
        return Said(0, Path(*arguments).read_text(encoding="utf-8"), "")
    if name == "ls":
        return Said(0, "".join(f"{path.name}\n" for path in sorted(Path(*arguments).iterdir())), "")
    assert name == "sottovoce", f"no command {name!r}"
    before = _contents(here)
    said = sottovoce(*arguments)
    if said.code == 2:
        complaint(said)
        assert _FOREIGN.search(said.err) is None, said.err
        written = {str(path) for path, _ in _contents(here).items() ^ before.items()}
        assert not written, f"refused, but wrote: {shlex.join(words)}: {written}"
    return said


def _contents(here: Path) -> dict[Path, bytes]:
    """Read all files but those that a member's folder has from its first command on."""
    files = (path for path in here.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files if path.name not in (SECRET, ATTEMPTS)}


def _lines(said: Said) -> list[str]:
    """Output in the form of a case file, without spaces at the ends of lines."""
    out = [f"  {line}".rstrip() for line in said.out.split("\n")]
    # A missing end of the last line, and an empty last line, are made visible.
    out = out[:-1] if not out[-1] else [*out, "  <no end of line>"]
    if out and not out[-1]:
        out[-1] = "  <empty line>"
    code = [f"[{said.code}]"] if said.code else []
    return [*out, *(f"! {line}" for line in said.err.splitlines()), *code]


def _joined(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _pattern(lines: Sequence[str]) -> re.Pattern[str]:
    """Compile the expected lines of an output to a regular expression."""
    return re.compile("".join(_SKIPPED.get(line) or f"{_expected(line)}\n" for line in lines))


def _expected(line: str) -> str:
    fixed, names = _VARYING.split(line), _VARYING.findall(line)
    varying = [PLACEHOLDERS[name] for name in names]
    return "".join(
        re.escape(text) + pattern for text, pattern in zip(fixed, [*varying, ""], strict=True)
    )


def updated(old: Sequence[str], came: Sequence[str]) -> Sequence[str]:
    """Replace expected lines by the output that came, with the wildcards that still match."""
    patterns = [(line, re.compile(_expected(line))) for line in old if _VARYING.search(line)]
    named = [
        next((one for one, pattern in patterns if pattern.fullmatch(line)), line) for line in came
    ]
    # A line whose words changed takes the place of the old one; numbers and keys are no words.
    aligned, worded = list(old), [_ANY.sub("#", line) for line in named]
    for place, line in enumerate(old):
        if line not in _SKIPPED and line not in named:
            for near in difflib.get_close_matches(_ANY.sub("#", line), worded, n=1):
                found = worded.index(near)
                aligned[place] = named[found] = _reworded(line, named[found])
    new = list[str]()
    matcher = difflib.SequenceMatcher(None, aligned, named, autojunk=False)
    for _, start, end, begin, stop in matcher.get_opcodes():
        skipped = aligned[start:end]
        one = len(skipped) == 1 and skipped[0] in _SKIPPED
        new += skipped if one else named[begin:stop]
    return new if _pattern(new).fullmatch(_joined(came)) else came


def _reworded(old: str, line: str) -> str:
    """Put the placeholders of an old line into a new one, for words that match them."""
    # A day and a clock's time are one word.
    before, words = (re.split(r" (?!\d\d:\d\d)", each) for each in (old, line))
    matcher = difflib.SequenceMatcher(None, before, words, autojunk=False)
    for _, start, end, begin, stop in matcher.get_opcodes():
        for place, other in zip(range(start, end), range(begin, stop), strict=False):
            if _VARYING.search(before[place]) and re.fullmatch(
                _expected(before[place]), words[other]
            ):
                words[other] = before[place]
    return " ".join(words)
