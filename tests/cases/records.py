"""Records that a case prepares after ``@``: one function for each kind."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

import msgspec
import numpy as np

from parties.keeping.checkpoints import write_checkpoint
from parties.keeping.packing import Unpacked
from protocol import Records
from protocol.messages import WITHDRAWN
from protocol.transcript.receipts import Counted, encode_receipt
from protocol.variants import BUILT_IN, RRBA, PairRR, RRClusters, RRIndependent, SecureSumVariant
from scenarios import simulate
from scenarios.cli.example_variants import example
from tests.every_variant import BITS, PARTIES
from tests.protocol.sessions import answers
from tests.recorded.checkpointed import record, spoken
from tests.recorded.forgeries import Forgery, header_of_file, unreadable_after_header
from tests.recorded.signed import TWO, changed_report, finished_run, rewritten, setting, signed_run
from tests.recorded.withdrawn import survey_without
from tests.scenarios.command import sottovoce


def survey(here: Path) -> None:
    """Copy the files of a small survey, which is run once.

    The files are ``plan.toml``, ``t.csv`` with 15 rows, ``out/transcript.svt.zst`` with its
    checkpoint and result, and ``p.svr``, the receipt of ``party-01``.
    """
    shutil.copytree(_survey(), here, dirs_exist_ok=True)


@functools.cache
def _survey() -> Path:
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    plan, rows = folder / "plan.toml", folder / "t.csv"
    plan.write_text(_PLAN)
    rows.write_text("smokes,age\n" + "no,young\nyes,old\nno,old\n" * 5)
    ran(folder, str(plan), "--records", str(rows), "--out", str(folder / "out"))
    record = folder / "out" / "transcript.svt.zst"
    assert sottovoce("prove", record, "party-01", "--out", folder / "p.svr").code == 0
    return folder


_PLAN = """title = "T"
epsilon = 2.0

[[attributes]]
name = "smokes"
categories = ["no", "yes"]

[[attributes]]
name = "age"
categories = ["young", "old"]
ordinal = true
"""


def ran(here: Path, *arguments: str) -> None:
    """Run ``sottovoce run`` without showing its output.

    The default transport is ``local``, whose records are the same each time.
    """
    local = () if "--transport" in arguments else ("--transport", "local")
    said = sottovoce("run", *arguments, *local)
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


def cut(here: Path, name: str, other: str, size: str) -> None:
    """Write the first bytes of an unpacked transcript, or all but the last if size is negative."""
    (here / other).write_bytes(b"".join(Unpacked((here / name).read_bytes()))[: int(size)])


def header_of(here: Path, name: str, other: str) -> None:
    """Write the header of a transcript alone."""
    (here / other).write_bytes(header_of_file((here / name).read_bytes()))


def flipped(here: Path, name: str, other: str, place: str) -> None:
    """Write an unpacked transcript with one bit changed."""
    content = bytearray(b"".join(Unpacked((here / name).read_bytes())))
    content[int(place)] ^= 1
    (here / other).write_bytes(content)


def unreadable(here: Path, name: str, other: str) -> None:
    """Write a packed transcript that cannot be unpacked after its header."""
    (here / other).write_bytes(unreadable_after_header((here / name).read_bytes()))


def checkpointed(here: Path, name: str) -> None:
    """Write a record of several checkpoints, by its name in ``_SPOKEN``."""
    (here / f"{name}.svt").write_bytes(_SPOKEN[name]())


_SPOKEN = {
    "five": record,
    "fork": lambda: spoken([(2, 1, 1), (), (3, 1, 1, 1, 1), (2, 3, 4)]),
    "short": lambda: spoken([(1, 2, 1)]),
    "one": lambda: spoken([(1, 2)]),
    "other": lambda: spoken([(1, 3)]),
}
"""Records of one session: ``five`` continues ``short``, and all others are forks."""


def signed(here: Path) -> None:
    """Write ``signed.svt`` with its checkpoint, and ``fork.svt``, in which one report differs."""
    run = signed_run()
    (here / "signed.svt").write_bytes(run.content)
    (here / "fork.svt").write_bytes(rewritten(run, changed_report(TWO)).content)
    write_checkpoint(run.checkpoint, here / "signed.svt")


def unsigned(here: Path) -> None:
    """Write ``unsigned.svt``, in which party-2 sends no head, with its checkpoint."""
    run = finished_run(setting(), unsigned=(TWO,))
    (here / "unsigned.svt").write_bytes(run.content)
    write_checkpoint(run.checkpoint, here / "unsigned.svt")


def three_rounds(here: Path) -> None:
    """Write two receipts for reports of three rounds, their checkpoint and two messages.

    ``sound.receipt`` holds, and ``lying.receipt`` mixes the rounds up. ``report`` is one of the
    reports, and ``other`` another message.
    """
    variant, records = example(BUILT_IN["privkvm"], {"rounds": "3"})
    outcome = simulate(variant, Records(records.survey, np.tile(records.codes, (4, 1))))
    receipt, _ = outcome.transcript.prove(type(variant), outcome.charter.roster.parties[0])
    first, second, *rest = receipt.counted
    swapped = (
        Counted(first.report, second.closing, first.path),
        Counted(second.report, first.closing, second.path),
        *rest,
    )
    lying = msgspec.structs.replace(receipt, counted=swapped)
    (here / "sound.receipt").write_bytes(encode_receipt(receipt))
    (here / "lying.receipt").write_bytes(encode_receipt(lying))
    write_checkpoint(outcome.transcript.verify().final, here / "rounds.svt")
    (here / "report").write_bytes(second.report.encoded)
    (here / "other").write_bytes(second.closing.encoded)


def doctored(here: Path, name: str, other: str) -> None:
    """Write a transcript in which the first message of party-01 is empty."""
    forgery = Forgery((here / name).read_bytes())
    forgery.entries[forgery.place("party-01", 0)][2][5] = b"\x90"
    (here / other).write_bytes(forgery.write())


def without(here: Path, name: str, parties: str, *places: str) -> None:
    """Record a survey in which the parties at these places are missing; ``-3`` was withdrawn."""
    width = len(parties)
    reasons = {
        f"party-{place.removeprefix('-'):0>{width}}": f"{WITHDRAWN}: moved away"
        if place.startswith("-")
        else "never came"
        for place in places
    }
    run = survey_without(reasons, int(parties), signed=int(parties) >= 10)
    (here / name).write_bytes(run.content)
