"""What a session binds beside the protocol: the file of one's own, the wording, who made the keys.

An auditor who has another file, or who is shown another wording, hears so.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parties.keeping.packing import Unpacked
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.verification import verify
from tests.recorded.transcripts import sample, signed_sample
from tests.scenarios.command import complaint, sottovoce
from tests.scenarios.survey_folders import PLAN, aggregating, everybody_answers, make_folders
from tests.tiers import slow

OWN = '''"""A variant of one's own."""

from protocol.variants import RRIndependent

P = 0.5


class Own(RRIndependent, frozen=True):
    name = "own"
'''
TEXTS = """
[[texts]]
language = "en"
consent = "You may stop at any time."

[[texts.questions]]
attribute = "smokes"
ask = "Do you smoke?"
labels = ["No", "Yes, I do"]
"""


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The file of a variant, and the transcript of a survey by it over TLS."""
    folder = tmp_path_factory.mktemp("bound")
    own = folder / "own.py"
    own.write_text(OWN)
    plan = PLAN.replace('title = "Health"', 'title = "Health"\nvariant = "own.py:Own"') + TEXTS
    keys = make_folders(folder, plan)
    out = folder / "out"
    with aggregating(keys, out, "--variant", f"{own}:Own") as (aggregator, where, _):
        everybody_answers(keys, where, "--variant", f"{own}:Own")
        assert aggregator.wait(timeout=60) == 0
    [transcript] = out.glob("transcript.svt.zst*")
    return own, transcript


def test_another_file_is_another_protocol(held: tuple[Path, Path], tmp_path: Path) -> None:
    own, transcript = held
    said = sottovoce("audit", transcript, "--variant", f"{own}:Own")
    assert said.code == 0, said.out + said.err
    other = tmp_path / "own.py"
    other.write_text(OWN.replace("P = 0.5", "P = 0.4"))
    for asked in ("audit", "estimate"):
        said = sottovoce(asked, transcript, "--variant", f"{other}:Own")
        assert "the variant is not the one that was agreed" in complaint(said, 1)
    # Whatever its class says of where it is.
    other.write_text(OWN.replace("    name", '    __module__ = "protocol.variants"\n    name'))
    said = sottovoce("audit", transcript, "--variant", f"{other}:Own")
    assert "the variant is not the one that was agreed" in complaint(said, 1)
    assert verify(Unpacked(transcript.read_bytes())).intact


def test_an_audit_says_what_was_bound(held: tuple[Path, Path]) -> None:
    own, transcript = held
    said = sottovoce("audit", transcript, "--variant", f"{own}:Own", "--details").out
    for words in (
        "You may stop at any time.",
        "Do you smoke?",
        "No, Yes, I do",
        "3 were given folders with keys in them, by somebody who could answer as any of them",
        "one respondent's whole record is replaced",
        "SHA-256 ",
    ):
        assert words in said, words
    header = TranscriptReader(Unpacked(transcript.read_bytes())).header
    assert header.survey["texts"][0]["questions"][0]["labels"] == ["No", "Yes, I do"]
    assert (header.enrolled, header.roles) == ((("folder", 3),), None)


def test_two_variants_of_one_name_are_refused(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(OWN + '\n\nclass Twin(RRIndependent, frozen=True):\n    name = "own"\n')
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN.replace('title = "Health"', 'title = "Health"\nvariant = "own.py:Own"'))
    said = sottovoce("keys", plan, "--count", "2", "--out", tmp_path / "keys")
    assert "several variants are called 'own'" in complaint(said)


@pytest.mark.parametrize("sparse", [19, slow(1)])
def test_no_beginning_of_a_real_record_is_broken(held: tuple[Path, Path], sparse: int) -> None:
    """Nothing that a crash leaves of a file has been changed after it was recorded."""
    _, transcript = held
    whole = b"".join(Unpacked(transcript.read_bytes()))
    for content, step in ((whole, 97), (sample().content, 1), (signed_sample().content, 1)):
        end = len(content)
        for length in (*range(0, end, step * sparse), *range(end - 900, end, sparse)):
            assert verify(content[:length]).verdict == "incomplete", length
        assert verify(content).verdict == "sound"


def test_a_record_cut_short_is_called_incomplete(held: tuple[Path, Path], tmp_path: Path) -> None:
    own, transcript = held
    whole = b"".join(Unpacked(transcript.read_bytes()))
    cut = tmp_path / "cut.svt"
    for length in (10, 5000, len(whole) - 700, len(whole) - 3):
        cut.write_bytes(whole[:length])
        said = sottovoce("verify", cut)
        assert said.out.startswith("Record: incomplete."), said.out
        assert json.loads(sottovoce("verify", cut, "--json").out)["verdict"] == "incomplete"
        if length > 10:
            said = sottovoce("audit", cut, "--variant", f"{own}:Own")
            assert (said.code, "broken" in said.out) == (1, False), said.out


def test_a_party_is_shown_the_wording_before_it_takes_part(held: tuple[Path, Path]) -> None:
    own, transcript = held
    folder = own.parent / "keys" / "anna"
    said = sottovoce("preflight", folder, "--variant", f"{own}:Own").out
    assert 'en: "You may stop at any time."' in said
    assert 'en, smokes: "Do you smoke?" Answers: No, Yes, I do.' in said
    assert transcript.exists()
