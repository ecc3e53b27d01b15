"""``verify``, ``audit``, ``query``, ``show``: on intact, torn, faulty and hostile files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.protocol.transcript.test_restored import rolled_back
from tests.recorded.forgeries import Forgery, unreadable_after_header
from tests.recorded.signed import ONE, TWO
from tests.recorded.transcripts import sample
from tests.scenarios.command import OWN, complaint, python, sottovoce

ROLL_CALL = f"{OWN}:RollCall"
UNTOLD = "cannot be distinguished from the original"


class Recorded(msgspec.Struct, frozen=True):
    """A run's transcript and result."""

    path: Path
    result: dict[str, Any]

    @property
    def digest(self) -> str:
        digest: str = self.result["transcript"]["digest"]
        return digest


def recorded(folder: Path, *run: object) -> Recorded:
    return Recorded(
        folder / "transcript.svt.zst", sottovoce("run", *run, "--out", folder, "--json").json
    )


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return recorded(tmp_path_factory.mktemp("quick"), "quickstart", "--set", "residents=30")


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return recorded(tmp_path_factory.mktemp("rounds"), f"{OWN}:roll-call")


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return recorded(tmp_path_factory.mktemp("faulty"), f"{OWN}:faulty")


def test_verify(quick: Recorded) -> None:
    found = sottovoce("verify", quick.path, "--json").json
    assert (found["verdict"], found["complete"], found["torn"]) == ("sound", True, False)
    assert (found["compared"], found["digest"], found["faults"]) == (False, quick.digest, [])


def doctored(content: bytes) -> bytes:
    """A file with another result, by whoever holds it: parties' words are signed, and stay."""
    forgery = Forgery(content)
    forgery.notes.clear()
    [result] = [e[2] for e in forgery.entries if e[0] == "Sent" and e[2][4] == "Pooled"]
    codes, counts = msgspec.msgpack.decode(result[5])
    # The last part of an array is its content, here little-endian numbers.
    counts[-1] = b"\x02" + counts[-1][1:]
    result[5] = msgspec.msgpack.encode([codes, counts])
    return forgery.write()


def test_a_rewritten_file_is_told_by_its_digest_alone(quick: Recorded, tmp_path: Path) -> None:
    path = tmp_path / "forged.svt"
    path.write_bytes(doctored(quick.path.read_bytes()))
    assert sottovoce("verify", path).code == 0
    assert sottovoce("verify", path, "--digest", quick.digest).code == 1


def test_rewritten_words_of_a_party_are_told_by_its_signature(
    quick: Recorded, tmp_path: Path
) -> None:
    forgery = Forgery(quick.path.read_bytes())
    forgery.notes.clear()
    forgery.entries[forgery.place("party-01", 0)][2][5] = b"\x90"
    path = tmp_path / "forged.svt"
    path.write_bytes(forgery.write())
    assert sottovoce("verify", path).code == 1
    found = json.loads(sottovoce("audit", path, "--json").out)
    [finding] = [f for f in found["findings"] if "head" in f["text"]]
    assert finding["entries"]


def test_a_changed_byte_of_the_log_is_a_fault(quick: Recorded, tmp_path: Path) -> None:
    content = bytearray(Forgery(quick.path.read_bytes()).write())
    content[-800] ^= 1
    path = tmp_path / "changed.svt"
    path.write_bytes(content)
    said = sottovoce("verify", path)
    assert said.code == 1
    assert "fault: byte " in said.out
    assert sottovoce("audit", path).code == 1


def test_a_changed_byte_of_a_packed_file_has_no_verdict(quick: Recorded, tmp_path: Path) -> None:
    content = bytearray(quick.path.read_bytes())
    content[-40] ^= 1
    path = tmp_path / "changed.svt"
    path.write_bytes(content)
    said = sottovoce("verify", path, "--digest", quick.digest)
    assert said.code == 3
    assert "Could not finish: the file cannot be unpacked: byte " in said.out
    assert "fault:" not in said.out
    assert "could not finish: byte " in sottovoce("audit", path).out


def test_of_what_cannot_be_unpacked_there_is_no_verdict(quick: Recorded, tmp_path: Path) -> None:
    unread = tmp_path / "unread.svt"
    unread.write_bytes(unreadable_after_header(quick.path.read_bytes()))
    found = json.loads(sottovoce("verify", unread, "--json").out)
    assert found["verdict"] == "unfinished"
    assert found["says"] == "The file could not be read to its end."
    page = tmp_path / "page.html"
    assert sottovoce("audit", unread, "--html", page).code == 3
    text = page.read_text()
    assert 'id="record" class="verdict open"' in text
    assert "Record: sound" not in text
    assert "No result was published" not in text
    assert "nothing was published" not in text
    assert "No party said anything" not in text
    as_values = json.loads(sottovoce("audit", unread, "--json").out)
    assert as_values["verdict"] == "unfinished"
    assert "accepted" not in as_values
    assert [found["text"][:17] for found in as_values["findings"]] == ["could not finish:"]


def test_a_checkpoint_of_another_session_says_nothing_of_the_file(
    quick: Recorded, tmp_path: Path
) -> None:
    other = recorded(tmp_path / "other", "quickstart", "--set", "residents=45")
    published = other.path.with_name("transcript.checkpoint")
    found = json.loads(sottovoce("verify", quick.path, "--checkpoint", published, "--json").out)
    assert found["published"] == "another session"


@pytest.mark.slow
def test_audit(quick: Recorded) -> None:
    said = python("-m", "scenarios", "audit", quick.path, "--digest", quick.digest, "--details")
    assert said.code == 0
    assert "\nRecord: sound. The record is whole" in said.out
    assert "Caution  Simulation. The record holds its seed" in said.out
    assert "30 of 30 parties were counted" in said.out
    assert "The published result of 30 respondents follows" in said.out
    assert UNTOLD not in said.out
    found = sottovoce("audit", quick.path, "--json").json
    privacy = quick.result["privacy"]
    assert found["verdict"] == "sound"
    assert found["simulated"] is True
    assert found["findings"] == []
    for figure in ("record_epsilon", "attribute_epsilon"):
        assert found["privacy"][figure] == privacy[figure]
    for check, claim in zip(found["privacy"]["claims"], privacy["claims"], strict=True):
        assert {name: check[name] for name in claim} == claim
    [account] = found["privacy"]["accounts"]
    assert account["parties"] == 30
    assert [charge["kind"] for charge in account["trail"]] == ["Report"]
    assert found["result"]["marginals"] == quick.result["estimate"]["marginals"]


def test_a_doctored_result(quick: Recorded, tmp_path: Path) -> None:
    path = tmp_path / "doctored.svt"
    path.write_bytes(doctored(quick.path.read_bytes()))
    assert sottovoce("verify", path).code == 0
    said = sottovoce("audit", path)
    assert said.code == 1
    assert "\nRecord: broken. 1 finding stands" in said.out
    found = sottovoce("audit", path, "--json")
    assert found.code == 1
    assert json.loads(found.out)["verdict"] == "broken"


@pytest.mark.slow
def test_what_is_unbounded(tmp_path: Path) -> None:
    plain = recorded(tmp_path, f"{OWN}:plain")
    variant = ("--variant", f"{OWN}:PlainAnswers")
    privacy = sottovoce("audit", plain.path, *variant, "--json").json["privacy"]
    assert privacy["record_epsilon"] is None
    assert privacy["attribute_epsilon"] is None
    [reason] = privacy["unbounded"]
    assert reason.startswith("the true answers to district")
    assert privacy["accounts"][0]["record_epsilon"] is None


def test_a_transcript_of_a_variant_of_ones_own(rounds: Recorded) -> None:
    # The aggregator draws: the seed in the header makes that verifiable.
    found = sottovoce("audit", rounds.path, "--variant", ROLL_CALL, "--json").json
    assert found["result"]["follows"] is True
    assert [c["kind"] for c in found["completeness"]["closings"]] == ["Here", "Here", "Report"]
    assert [c["round"] for c in found["completeness"]["closings"]] == [0, 1, -1]


def test_without_a_seed_nobody_can_tell(rounds: Recorded, tmp_path: Path) -> None:
    forgery = Forgery(rounds.path.read_bytes())
    forgery.header["seed"] = None
    path = tmp_path / "unseeded.svt"
    path.write_bytes(forgery.write())
    said = sottovoce("audit", path, "--variant", ROLL_CALL)
    assert said.code == 1
    assert "is unknown" in said.out
    assert "holds its seed" not in said.out
    found = json.loads(sottovoce("audit", path, "--variant", ROLL_CALL, "--json").out)
    assert (found["result"]["follows"], found["simulated"]) == (None, False)


@pytest.mark.parametrize("name", ["evil.py:Evil", "evil.py", "no-such"])
def test_what_a_transcript_names_is_never_run(name: str, quick: Recorded, tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text("raise SystemExit('run!')")
    forgery = Forgery(quick.path.read_bytes())
    forgery.header["variant"] = str(tmp_path / name)
    path = tmp_path / "hostile.svt"
    path.write_bytes(forgery.write())
    said = complaint(sottovoce("audit", path))
    assert "expected one of rr-independent" in said
    assert "run!" not in said


def test_query(rounds: Recorded, faulty: Recorded) -> None:
    question = (
        "SELECT round, kind, count(*) AS n, min(bytes) > 0 AS some FROM sent "
        "WHERE sender LIKE 'party-%' AND kind <> 'Head' GROUP BY round, kind ORDER BY round"
    )
    assert sottovoce("query", rounds.path, question, "--json").json == [
        {"round": 1, "kind": "Here", "n": 40, "some": 1},
        {"round": 2, "kind": "Here", "n": 40, "some": 1},
        {"round": 3, "kind": "Report", "n": 40, "some": 1},
    ]
    [row] = sottovoce(
        *("query", rounds.path, "--json"),
        "SELECT (SELECT count(*) FROM roster) AS members, value FROM header WHERE key = 'seed'",
    ).json
    assert row == {"members": 41, "value": "1"}
    gone = faulty.result["trouble"]["crashed"]
    [row] = sottovoce(
        *("query", faulty.path, "--json"),
        "SELECT (SELECT count(*) FROM departed WHERE reason = 'crashed') AS gone, "
        "(SELECT count(*) FROM delivered WHERE repeated) > 0 AS repeats, "
        "(SELECT count(*) FROM refused) AS refused",
    ).json
    assert row == {"gone": gone, "repeats": 1, "refused": 0}


def test_query_prints_a_table(quick: Recorded) -> None:
    row = sottovoce("query", quick.path, "SELECT 1e999 AS far, x'00ff' AS bytes", "--json").json
    assert row == [{"far": None, "bytes": "00ff"}]


def test_a_restored_record_names_whom_it_goes_on_without(tmp_path: Path) -> None:
    _, record = rolled_back(3, (ONE, TWO))
    record.recorder.restore(now=2.0)
    record.recorder.close()
    path = tmp_path / "restored.svt"
    path.write_bytes(record.content)
    asked = sottovoce("query", path, "SELECT entry, at, without FROM restored", "--json").json
    assert [row["without"] for row in asked] == ["party-1, party-2", ""]
    assert asked[0]["entry"] == 3


@pytest.mark.parametrize("command", [("audit",), ("show",), ("query", "SELECT 1")])
@pytest.mark.parametrize("content", [b"", b"GET / HTTP/1.1\r\n" * 90, b"sottovoce transcript 1\n"])
def test_what_is_no_transcript(command: tuple[str, ...], content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "no.svt"
    path.write_bytes(content)
    name, *rest = command
    assert "not a readable transcript" in complaint(sottovoce(name, path, *rest))


@pytest.mark.parametrize("torn", [3000, -10])
def test_a_crash_can_be_looked_at(torn: int, quick: Recorded, tmp_path: Path) -> None:
    path = tmp_path / "torn.svt"
    path.write_bytes(quick.path.read_bytes()[:torn])
    judged = json.loads(sottovoce("audit", path, "--json").out)["privacy"]
    assert judged["record_epsilon"] is judged["attribute_epsilon"] is None
    assert "could not be read whole" in judged["unbounded"][-1]


def test_a_hostile_transcript_is_shown_and_nothing_else(tmp_path: Path) -> None:
    forgery = Forgery(sample().content)
    forgery.header["variant"] = "[red]x[/nosuch]"
    for entry in forgery.entries:
        if entry[0] == "Sent":
            entry[2][4] = "[/]\x1b[31m"
        if entry[0] == "Refused":
            entry[3] = "[/]\x1b[31m"
        if entry[0] == "Departed":
            entry[3] = "[bold\x07"
    path = tmp_path / "hostile.svt"
    path.write_bytes(forgery.write())
    for command in (("show", path), ("query", path, "SELECT kind, body FROM sent")):
        said = sottovoce(*command)
        assert said.code == 0
        assert "[/]\\x1b[31m" in said.out
        assert "\x1b" not in said.out
        assert "\x07" not in said.out
    assert "\x1b" not in sottovoce("verify", path).out
    forgery.header["roster"] = [["nobody", bytes(32)]]
    path.write_bytes(forgery.write())
    for command in (("show", path), ("query", path, "SELECT 1")):
        assert "the header is not valid" in complaint(sottovoce(*command))
    assert sottovoce("verify", path).code == 1
