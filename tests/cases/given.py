"""Preparations that a case names after ``@``: a function each, called with the case's folder."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

from parties.keeping.packing import Unpacked
from protocol.variants import RRBA, PairRR, RRClusters, RRIndependent, SecureSumVariant
from scenarios import simulate
from tests.every_variant import BITS, PARTIES
from tests.protocol.sessions import answers
from tests.recorded.forgeries import header_of_file, unreadable_after_header
from tests.scenarios.cli.refusing import make_survey
from tests.scenarios.command import OWN, sottovoce, write_adult
from tests.scenarios.survey_folders import make_folders


def edited(here: Path, name: str, other: str, old: str, new: str) -> None:
    """Write a file with one text replaced by another, in which ``\\n`` is the end of a line."""
    text = (here / name).read_text(encoding="utf-8")
    old, new = (part.replace("\\n", "\n") for part in (old, new))
    assert old in text, f"{name} has no {old!r}"
    (here / other).write_text(text.replace(old, new, 1), encoding="utf-8")


def bytes_of(here: Path, name: str, content: str) -> None:
    """Write a file of bytes, in Python's notation, such as ``PK\\x03\\x04``."""
    (here / name).write_bytes(content.encode("latin-1").decode("unicode_escape").encode("latin-1"))


def cut(here: Path, name: str, other: str, size: str) -> None:
    """Write the first bytes of a transcript, unpacked: all but the last where size is negative."""
    (here / other).write_bytes(b"".join(Unpacked((here / name).read_bytes()))[: int(size)])


def folder(here: Path, name: str) -> None:
    """Make an empty folder."""
    (here / name).mkdir(parents=True)


def own_variants(here: Path, name: str) -> None:
    """Copy a file of scenarios and variants of a user's own."""
    shutil.copy(OWN, here / name)


def appended(here: Path, name: str, other: str, more: str) -> None:
    """Write a file with lines after those of another, where ``\\n`` is the end of a line."""
    text = (here / name).read_text(encoding="utf-8") + more.replace("\\n", "\n")
    (here / other).write_text(text, encoding="utf-8")


def adult(here: Path, folder: str, rows: str) -> None:
    """Write a file in Adult's format, with so many rows that no census has seen."""
    write_adult(here / folder, int(rows))


def survey(here: Path) -> None:
    """Copy the files of a small survey of 15 rows, made once: a plan, a table, a run, a receipt.

    They are ``plan.toml``, ``t.csv``, ``out/transcript.svt.zst`` with its checkpoint and result,
    and ``p.svr``, the receipt of ``party-01``.
    """
    shutil.copytree(_survey(), here, dirs_exist_ok=True)


@functools.cache
def _survey() -> Path:
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    make_survey(folder)
    return folder


def encoded(here: Path, name: str, other: str, encoding: str) -> None:
    """Write a file in another encoding."""
    (here / other).write_text((here / name).read_text(encoding="utf-8"), encoding=encoding)


def folders(here: Path) -> None:
    """Make ``plan.toml`` and, in ``keys``, the folders of the aggregator, anna, bert and carl."""
    make_folders(here)


def ran(here: Path, *arguments: str) -> None:
    """Run ``sottovoce run``, with a result that another case shows."""
    said = sottovoce("run", *arguments)
    assert said.code == 0, said.err


_BITS = {
    "rr-independent": (RRIndependent.with_keep(BITS, 0.6), 20),
    "secure-sum": (SecureSumVariant(survey=BITS), PARTIES),
    "pair-rr": (PairRR.with_keep(BITS, 0.6), PARTIES),
    "rrba": (RRBA(survey=BITS, p=0.5, k=1, block=4), PARTIES),
    "rr-clusters": (RRClusters(survey=BITS, p=0.6, tv=4, td=0.1), PARTIES),
}


def recorded(here: Path, name: str) -> None:
    """Record a survey of three yes-or-no attributes among six parties.

    The files are ``transcript.svt.zst`` and the true answers, ``records.csv``.
    """
    variant, respondents = _BITS[name]
    records = answers(BITS, respondents)
    (here / "records.csv").write_text(records.to_csv(), encoding="utf-8")
    simulate(variant, records, parties=PARTIES, path=here / "transcript.svt.zst")


def unreadable(here: Path, name: str, other: str) -> None:
    """Write a packed transcript that cannot be unpacked after its header."""
    (here / other).write_bytes(unreadable_after_header((here / name).read_bytes()))


def header_of(here: Path, name: str, other: str) -> None:
    """Write the header of a transcript alone."""
    (here / other).write_bytes(header_of_file((here / name).read_bytes()))


def flipped(here: Path, name: str, other: str, place: str) -> None:
    """Write a transcript, unpacked, with one bit of one byte changed."""
    content = bytearray(b"".join(Unpacked((here / name).read_bytes())))
    content[int(place)] ^= 1
    (here / other).write_bytes(content)
