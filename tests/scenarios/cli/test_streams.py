"""Commands end as they should whatever their streams can write, and however a path is named."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from scenarios.cli import main
from scenarios.errors import printable
from scenarios.streams import ESCAPED, READABLE, make_writable
from tests.scenarios.command import ROOT, environment, write_adult
from tests.tiers import thinned

ENCODINGS = ("cp1252", "latin-1", "ascii")
QUICKSTART = ("run", "quickstart", "--set", "residents=200", "--set", "parties=4")


def said_in(encoding: str, *arguments: object) -> tuple[object, str, str]:
    """How a command ended and what it said, on streams of an encoding."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding) for _ in range(2))
    code: object = None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(list(map(str, arguments)))
        except SystemExit as end:
            code = end.code
    out.seek(0)
    err.seek(0)
    return code, out.read(), err.read()


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "out"
    code, _, said = said_in("utf-8", *QUICKSTART, "--out", out, "--json")
    assert code == 0, said
    return out / "transcript.svt.zst"


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_an_audit_is_printed_in_any_encoding(record: Path, encoding: str) -> None:
    code, said, complaint = said_in(encoding, "audit", record)
    assert code == 0, complaint
    assert "epsilon = 2.899" in said


@pytest.mark.slow
def test_an_audit_is_printed_in_the_locale_c(record: Path) -> None:
    c = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "scenarios", "audit", record],
        capture_output=True,
        cwd=ROOT,
        env={**environment(), **c},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "epsilon = 2.899" in done.stdout.decode("ascii")


def test_every_part_of_the_output_is_in_the_encoding_of_the_stream(tmp_path: Path) -> None:
    # A table by rich, the last line by click, which would write UTF-8.
    picture = tmp_path / "größe\u2028.html"
    code, said, complaint = said_in("ascii", *QUICKSTART, "--html", picture)
    assert code == 0, complaint
    written, opened = said.splitlines()[-2:]
    assert written.endswith(r"gr\u00f6\u00dfe\u2028.html")
    assert opened.endswith(r"gr\u00f6\u00dfe\u2028.html in a browser.")


def test_a_plan_that_is_printed_can_be_read(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("größe,b\n" + "klein…,€\ngroß,y\n" * 20, encoding="utf-8")
    for encoding in ENCODINGS:
        code, said, complaint = said_in(encoding, "plan", "--from", table)
        assert code == 0, complaint
        plan = tmp_path / f"{encoding}.toml"
        plan.write_text(said, encoding=encoding)
        code, said, complaint = said_in(encoding, "preflight", plan, "--records", table)
        assert (code, "NOT" in said) == (0, False), complaint


def test_what_a_stream_cannot_write_is_readable_in_it() -> None:
    make_writable()
    text = "ε ≈ ∞, “größe” \N{EN DASH} caf\udce9, \ud800, \U0001f600"
    assert text.encode("ascii", READABLE).decode() == (
        r'epsilon \u2248 inf, "gr\u00f6\u00dfe" - caf\xe9, \ud800, \U0001f600'
    )
    assert text.encode("ascii", ESCAPED).decode() == (
        r"\u03b5 \u2248 \u221e, \u201cgr\u00f6\u00dfe\u201d \u2013 caf\xe9, \ud800, \U0001f600"
    )
    assert "größe".encode("latin-1", READABLE).decode("latin-1") == "größe"


def test_a_byte_that_is_no_text_is_shown_as_a_byte() -> None:
    assert printable("caf\udce9 \ud800 \x1b\u2028") == r"caf\xe9 \ud800 \x1b\u2028"


def test_streams_that_are_not_files_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    monkeypatch.setattr(sys, "stdout", text)
    make_writable()
    assert sys.stdout is text


BYTES = os.fsdecode(b"caf\xe9")
"""A name whose bytes are not UTF-8."""


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    folder = tmp_path / BYTES
    folder.mkdir()
    (folder / f"{BYTES}.csv").write_text("sleep,smokes\n" + "good,yes\nbad,no\n" * 30)
    return folder


def test_a_run_in_a_folder_whose_name_is_no_text(odd: Path) -> None:
    out = odd / "out"
    code, said, complaint = said_in(
        "utf-8", *QUICKSTART, "--out", out, "--json", "--html", odd / "run.html"
    )
    assert code == 0, complaint
    assert r"caf\\xe9/out/transcript.svt.zst" in said
    assert msgspec.json.decode((out / "result.json").read_bytes())
    record = out / "transcript.svt.zst"
    for command in (
        ("verify", record, "--checkpoint", out / "transcript.checkpoint"),
        ("audit", record, "--html", odd / "audit.html"),
        ("estimate", record, "--table", "smokes", "--out", odd / "smokes.json"),
        ("prove", record, "party-1", "--out", odd / "receipt"),
        ("check", odd / "receipt", "--checkpoint", out / "transcript.checkpoint"),
    ):
        code, said, complaint = said_in("utf-8", *command)
        assert code == 0, complaint


def test_a_plan_in_a_folder_whose_name_is_no_text(odd: Path) -> None:
    table, plan = odd / f"{BYTES}.csv", odd / "plan.toml"
    code, said, complaint = said_in("utf-8", "plan", "--from", table, "--out", plan)
    assert code == 0, complaint
    assert r'title = "caf\\xe9"' in plan.read_text(encoding="utf-8")
    for command in (
        ("preflight", plan, "--records", table, "--json"),
        ("run", plan, "--records", table, "--json"),
    ):
        code, said, complaint = said_in("utf-8", *command)
        assert code == 0, complaint
        assert msgspec.json.decode(said)


def test_a_sweep_on_a_folder_whose_name_is_no_text(odd: Path) -> None:
    write_adult(odd)
    out = odd / "out"
    code, _, complaint = said_in("utf-8", "run", "rr-figure-1", "--data", odd, "--out", out)
    assert code == 0, complaint


@pytest.mark.slow
@pytest.mark.parametrize("encoding", thinned(["utf-8", "cp1252"], 1))
def test_a_survey_in_a_folder_whose_name_is_no_text(odd: Path, encoding: str) -> None:
    table, plan, out = odd / f"{BYTES}.csv", odd / "plan.toml", odd / "out"
    assert said_in("utf-8", "plan", "--from", table, "--out", plan)[0] == 0
    options = ("--records", table, "--parties", "2", "--out", out)
    code, said, complaint = said_in(encoding, "rehearse", plan, *options)
    assert code == 0, complaint
    assert "caf\\xe9" in said
    assert (out / "result" / "result.json").exists()


@pytest.mark.parametrize(
    "command",
    [
        (*QUICKSTART, "--set", f"residents={BYTES}"),
        ("witness", "--key", "KEY", "--state", "STATE", "--new-key", BYTES),
    ],
)
def test_a_value_that_is_no_text_is_refused(command: tuple[str, ...], tmp_path: Path) -> None:
    given = [str(tmp_path / part) if part.isupper() else part for part in command]
    code, said, complaint = said_in("utf-8", *given)
    assert (code, said) == (2, "")
    assert "UTF-8" in complaint
    assert complaint.count("\n") == 1
