"""Mistakes in tables of answers, and in the folders of members."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from tests.scenarios.cli.refusing import ROWS, one_line, refusal
from tests.scenarios.survey_folders import make_folders, table

BLANK = "the first row is blank; expected the names of the columns"
BOTH = [
    (ROWS + '"no,old\nno,old\n', "line 17: not a table: a quote that begins here is never closed"),
    (ROWS + '"no"x,old\n', "line 17: not a table: text after a closing quote; a quote in a quoted"),
    (ROWS + "no\n", "row 16: 1 field, but the first row has 2"),
    ("\n\n" + ROWS, BLANK),
    ("age,age\n" + ROWS, "the first row names column 'age' twice"),
    ("smokes,age\n", "has no records"),
    (b"PK\x03\x04\x14\0", "a spreadsheet or an archive; save its table as CSV or Parquet"),
    (gzip.compress(ROWS.encode(), mtime=0), "compressed; unpack it first"),
    (b"%PDF-1.7\n", "a PDF document; expected a table"),
    ("<!DOCTYPE html><p>please log in", "a web page; expected a table"),
    ('{"smokes": "no"}', "a JSON file; expected a table"),
    (b"PAR1 cut short", "not a table in Parquet, or a damaged one"),
]
RECORDS = [
    (ROWS + "nno,old\n", "unknown category 'nno'; did you mean 'no'? Allowed: 'no', 'yes'"),
    (ROWS.replace("smokes", "Smokes"), "no column 'smokes'; did you mean 'Smokes'? The table has"),
]


@pytest.mark.parametrize("command", [("plan", "--from"), ("run", "plan.toml", "--records")])
@pytest.mark.parametrize(("content", "says"), BOTH)
def test_of_a_table(command: tuple[str, ...], content: str | bytes, says: str, here: Path) -> None:
    (here / "u.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    said = refusal(here, *command, "u.csv")
    assert said.startswith("u.csv: ")
    assert says in said


@pytest.mark.parametrize(("content", "says"), RECORDS)
def test_of_records(content: str, says: str, here: Path) -> None:
    (here / "u.csv").write_text(content)
    assert says in refusal(here, "run", "plan.toml", "--records", "u.csv")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_of_a_file_without_permission(here: Path) -> None:
    (here / "t.csv").chmod(0)
    assert refusal(here, "plan", "--from", "t.csv") == "t.csv: no permission"


DAMAGED = [
    ("place.json", b"", "place.json: it breaks off, or is empty"),
    ("charter.json", b"hello", "charter.json: not JSON, from byte 0 on"),
    ("certificate.pem", b"hello", "identity.key do not belong together, or one is damaged"),
    ("authority.pem", b"", "identity.key do not belong together, or one is damaged"),
    ("identity.key", b"hello", "identity.key: expected a private key in PEM without a password"),
]


@pytest.mark.parametrize(("file", "content", "says"), DAMAGED)
def test_of_a_members_folder(file: str, content: bytes, says: str, tmp_path: Path) -> None:
    folders = make_folders(tmp_path)
    rows = table(tmp_path / "anna.csv", "no,young")
    (folders / "anna" / file).write_bytes(content)
    answer = ("answer", folders / "anna", "--records", rows, "--connect", "localhost:1")
    assert one_line(*answer).endswith(says)


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("http://localhost:80", "'http://localhost:80': expected HOST:PORT, without ://"),
        ("https://a.org/x", "'https://a.org/x': expected HOST:PORT, without ://"),
        ("localhost:99999", "expected HOST:PORT, with a port up to 65535"),
    ],
)
def test_of_an_address(address: str, says: str, tmp_path: Path) -> None:
    folder = make_folders(tmp_path) / "anna"
    rows = table(tmp_path / "anna.csv", "no,young")
    said = refusal(tmp_path, "answer", folder, "--records", rows, "--connect", address)
    assert said.endswith(says)
