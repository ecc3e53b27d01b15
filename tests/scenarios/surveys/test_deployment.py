"""``keys``, ``aggregate`` and ``answer``: a survey among processes that share nothing but TLS."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar, TypeAlias

import msgspec
import pytest
import trio

from parties.keeping.members import Member
from parties.keeping.remembered import DIGEST_BYTES, KEY_BYTES, remembering
from protocol import AGGREGATOR, PartyId, Stream
from protocol.errors import UsageError
from protocol.messages import Envelope
from protocol.session.variant import build, plain_parameters
from protocol.transcript.entries import Sent
from protocol.transcript.header import make_header
from protocol.transcript.receipts import Acknowledgement
from protocol.transcript.recorder import Recorder
from protocol.variants import RRIndependent
from protocol.wire.codec import decode_envelope, encode_envelope
from scenarios import open_transcript
from scenarios.errors import STOPPED
from scenarios.surveys.answering import Answered
from scenarios.surveys.endings import NOT_ACKNOWLEDGED
from scenarios.surveys.members import read_member
from tests.scenarios.command import complaint, python, sottovoce
from tests.scenarios.programs import Program
from tests.scenarios.survey_folders import (
    ROWS,
    aggregating,
    answer_alone,
    make_folders,
    table,
)
from transports.testing import HANGS

WHO = ("anna", "bert", "carl")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders for anna, bert and carl."""
    return make_folders(tmp_path_factory.mktemp("survey"))


def reports(transcript: Path) -> dict[str, Envelope]:
    """The reports on record, by party."""
    sent = [
        decode_envelope(entry.envelope)
        for entry in open_transcript(transcript).entries()
        if isinstance(entry, Sent)
    ]
    return {envelope.sender: envelope for envelope in sent if envelope.kind == "Report"}


AGAIN = (
    "attempt 2: a party that answered an earlier one pays again, epsilon 2 per respondent at most, "
    "if its budget allows\n"
)


@pytest.fixture(scope="module")
def surveys(keys: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two attempts at one survey: everybody answers twice."""
    outs = []
    for attempt, spent in (1, ""), (2, " in attempt 2, 2 in earlier ones"):
        out = tmp_path_factory.mktemp("out")
        held = {"anna": ROWS, "bert": ROWS[1:], "carl": ROWS[:1]}
        with aggregating(keys, out) as (aggregator, where, told):
            assert told == ("" if attempt == 1 else AGAIN)
            answering = [
                Program(
                    *("answer", keys / name, "--connect", where),
                    *("--purse", keys / f"{name}.purse"),
                    *("--records", table(out / f"{name}.csv", *rows), "--budget", 2.1 * attempt),
                )
                for name, rows in held.items()
            ]
            for answer in answering:
                said, complained = answer.communicate(timeout=HANGS)
                assert answer.returncode == 0, complained
                done, receipt, check, counted = said.splitlines()
                assert done == f"done; epsilon 2 spent per respondent{spent}"
                assert receipt.startswith(f"receipt: {keys}/")
                assert check.startswith(f"check it with: sottovoce check {keys}/")
                # The wait for the others may be over by then.
                assert counted in (
                    "counted: not yet known; the published record will show it",
                    "counted: yes",
                )
                assert complained == ""
            text, complained = aggregator.communicate(timeout=HANGS)
            assert aggregator.returncode == 0, complained
            assert text == (out / "result.json").read_text()
        outs.append(out)
    return outs


def test_a_survey_among_processes(surveys: list[Path]) -> None:
    result = msgspec.json.decode((surveys[0] / "result.json").read_bytes())
    assert (result["transport"], result["seed"]) == ("tls", None)
    assert (result["parties"], result["counted"], result["respondents"]) == (3, 3, 6)
    assert result["trouble"] == {}
    assert "truth" not in result
    assert result["privacy"]["record_epsilon"] == pytest.approx(2.0, abs=1e-9)
    assert result["usefulness"]["verdict"] in ("poor", "none", "unknown")
    path = surveys[0] / "transcript.svt.zst"
    digest = result["transcript"]["digest"]
    said = sottovoce("audit", path, "--digest", digest, "--details")
    assert said.code == 0
    assert "\nRecord: sound. " in said.out
    assert "The published result of 6 respondents follows" in said.out
    assert "seed" not in said.out


def test_a_party_gets_a_receipt_for_what_it_signed(
    keys: Path, surveys: list[Path], tmp_path: Path
) -> None:
    transcript, checkpoint = (
        surveys[0] / name for name in ("transcript.svt.zst", "transcript.checkpoint")
    )
    found = sottovoce("verify", transcript, "--checkpoint", checkpoint, "--json").json
    assert found["signed"]["parties"] == "all"
    assert found["extends_checkpoint"] is True
    receipt = tmp_path / "anna.receipt"
    assert sottovoce("prove", transcript, "anna", "--out", receipt).code == 0
    check = ("check", receipt, "--checkpoint", checkpoint)
    said = sottovoce(*check, "--member", keys / "anna")
    assert said.code == 0, said.out
    assert said.out.splitlines()[-2:] == ["holds", "counted"]
    said = sottovoce(*check, "--member", keys / "bert")
    assert said.code == 1
    assert "the receipt is about 'anna', not 'bert'" in said.out
    report = tmp_path / "report"
    report.write_bytes(encode_envelope(reports(transcript)["anna"]))
    assert sottovoce(*check, "--report", report).code == 0
    report.write_bytes(encode_envelope(reports(transcript)["bert"]))
    said = sottovoce(*check, "--report", report)
    assert said.code == 1
    assert "is not one of the reports that the receipt is about" in said.out


def test_a_party_that_is_done_has_a_receipt(
    keys: Path, surveys: list[Path], tmp_path: Path
) -> None:
    """Of each attempt; nobody else has a say in it, and nothing later takes it back."""
    later = []
    for attempt, out in enumerate(surveys, 1):
        session = read_member(keys / "anna").charter.again(attempt).session.hex()
        receipt, checkpoint = (
            keys / "anna" / f"{what}-{session}" for what in ("receipt", "checkpoint")
        )
        check = ("check", receipt, "--checkpoint", checkpoint)
        said = sottovoce(*check, "--member", keys / "anna")
        assert said.code == 0, said.out
        lines = said.out.splitlines()
        words = {
            "anna: 1 report not named yet": "not yet known",
            "anna: counted in Report": "counted",
        }
        assert lines[1] == "all that it sent is on record: 1 envelope, and its head"
        assert lines[-2:] == ["holds", words[lines[0]]]
        assert sottovoce(*check, "--member", keys / "bert").code == 1
        verify = ("verify", out / "transcript.svt.zst", "--checkpoint", checkpoint, "--json")
        assert sottovoce(*verify).json["extends_checkpoint"] is True
        later.append(checkpoint)
        proof, published = tmp_path / f"{attempt}", out / "transcript.checkpoint"
        prove = ("prove", out / "transcript.svt.zst", "--since", checkpoint, "--out", proof)
        assert sottovoce(*prove).code == 0
        both = ("--since", checkpoint, "--checkpoint", published)
        assert sottovoce("consistency", proof, *both).code == 0
    assert sottovoce("check", receipt, "--checkpoint", later[0]).code == 1


def test_a_survey_that_is_held_again_contradicts_nothing(
    keys: Path, surveys: list[Path], tmp_path: Path
) -> None:
    evidence = tmp_path / "evidence.json"
    for attempt, out in enumerate(surveys, 1):
        found = json.loads((out / "result.json").read_text())
        assert found["attempt"] == attempt
        checkpoint = ("--checkpoint", out / "transcript.checkpoint")
        for path in (other / "transcript.svt.zst" for other in surveys):
            said = sottovoce("verify", path, *checkpoint, "--evidence", evidence)
            assert said.code == (path.parent != out), said.out
            assert not evidence.exists()
        said = sottovoce("audit", out / "transcript.svt.zst", *checkpoint)
        assert said.code == 0
        assert ("This is attempt 2 at the survey" in said.out) == (attempt == 2)
        assert sottovoce("show", out / "transcript.svt.zst").out.count(f"attempt {attempt}, ") == 1
        receipt = tmp_path / f"anna-{attempt}"
        assert sottovoce("prove", out / "transcript.svt.zst", "anna", "--out", receipt).code == 0
        said = sottovoce("check", receipt, *checkpoint, "--member", keys / "anna")
        assert said.code == 0, said.out
        assert f", attempt {attempt}\n" in said.out


def test_every_attempt_draws_anew(surveys: list[Path]) -> None:
    first, second = (reports(out / "transcript.svt.zst") for out in surveys)
    assert {report.session for report in first.values()}.isdisjoint(
        report.session for report in second.values()
    )
    bodies = [tuple(report.body for _, report in sorted(each.items())) for each in (first, second)]
    assert bodies[0] != bodies[1]


class ScriptedLink:
    """A party's link to a hub that says what it likes, and acknowledges.

    Args:
        says: what the hub says.
        aggregator: whose hub it is.
        attempt: at the survey.
    """

    lost: ClassVar[ConnectionError | None] = None

    def __init__(self, says: Sequence[Envelope], aggregator: Member, attempt: int) -> None:
        self.said: list[Envelope] = []
        self._aggregator = aggregator
        self._attempt = attempt
        self._says = list(says)

    def send_nowait(self, envelopes: Sequence[Envelope]) -> int:
        self.said += envelopes
        return len(envelopes)

    async def receive_many(self) -> list[Envelope]:
        if not self._says:
            raise trio.EndOfChannel
        return [self._says.pop(0)]

    async def acknowledgement(self) -> Acknowledgement | None:
        identity, charter = self._aggregator.identity, self._aggregator.charter
        header = make_header(charter.again(self._attempt))
        recorder = Recorder(
            lambda _: None, header, signer=identity, secret=bytes(32), acknowledging=True
        )
        for envelope in self.said:
            recorder.sent(envelope, now=0.0)
        [given] = recorder.acknowledge().values() or [None]
        return given


AnswerTo: TypeAlias = Callable[..., tuple[Answered, list[Envelope]]]


@pytest.fixture
def answered_to(keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AnswerTo:
    """How a party with a new memory ends, and what it says, when a hub says this to it."""
    anna, rows = tmp_path / "anna", table(tmp_path / "anna.csv", *ROWS)
    kept = shutil.ignore_patterns("attempts", "heard-*", "said-*", "receipt-*", "checkpoint-*")
    shutil.copytree(keys / "anna", anna, ignore=kept)

    def answered(
        *says: Envelope, budget: float | None = 2.1, attempt: int = 1, records: Path = rows
    ) -> tuple[Answered, list[Envelope]]:
        link = ScriptedLink(says, read_member(keys / AGGREGATOR), attempt)

        @asynccontextmanager
        async def connected(
            *_: object, join: Callable[[int], object], **others: object
        ) -> AsyncGenerator[ScriptedLink]:
            join(attempt)
            yield link

        monkeypatch.setattr("scenarios.surveys.answering.connect_lasting", connected)
        member = read_member(anna)
        ended = answer_alone(
            member, host="h", port=1, records=records, budget=budget, purse=tmp_path / "purse"
        )
        return ended, link.said

    return answered


def question(keys: Path, *, less: int = 0, attempt: int = 1, party: str = "anna") -> Envelope:
    """The question as agreed, or one that costs a little less and that a party consents to."""
    charter = read_member(keys / party).charter.again(attempt)
    parameters = plain_parameters(charter.variant)
    for randomizer in parameters["randomizers"]:
        randomizer["threshold"] -= less
    survey = msgspec.to_builtins(charter.variant.survey)
    asks = build(RRIndependent, parameters=parameters, survey=survey).question()
    body = charter.codec.encode(asks)
    return Envelope(charter.session, AGGREGATOR, PartyId(party), 0, "Ask", body)


def test_other_records_do_not_answer_in_the_same_attempt(
    keys: Path, tmp_path: Path, answered_to: AnswerTo
) -> None:
    answered_to(question(keys))
    for rows in (ROWS[:2], ROWS[:0:-1]):
        records = table(tmp_path / "other.csv", *rows)
        with pytest.raises(UsageError, match="other records have answered"):
            answered_to(question(keys), records=records)


def test_words_that_a_role_passes_over_do_not_make_room_for_a_second_report(
    keys: Path, answered_to: AnswerTo
) -> None:
    one, other = question(keys), question(keys, less=2**40)
    elsewhere = msgspec.structs.replace(one, session=bytes(32))
    ended, said = answered_to(elsewhere, other)
    assert (ended.ending, [envelope.kind for envelope in said]) == ("done", ["Report", "Head"])
    again, more = answered_to(one)
    assert "other messages than when this party answered before" in again.ending
    assert more == []
    assert answered_to(elsewhere, other) == (ended, said)


def test_a_hub_that_goes_on_and_on_does_not_fill_the_folder(
    keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answered_to: AnswerTo
) -> None:
    monkeypatch.setattr("parties.keeping.remembered.HEARD", 3)
    passed_over = msgspec.structs.replace(question(keys), session=bytes(32))
    for _ in range(2):
        ended, said = answered_to(*[passed_over] * 9)
        assert ended.ending.endswith("it sent more than 3 messages, the most that a party takes")
        assert said == []
        [heard] = (tmp_path / "anna").glob("heard-*")
        assert heard.stat().st_size == KEY_BYTES + 3 * DIGEST_BYTES


def test_a_party_signs_one_head_of_a_session(keys: Path, answered_to: AnswerTo) -> None:
    asked = question(keys)
    ended, said = answered_to(asked)
    assert (ended.ending, [envelope.kind for envelope in said]) == ("done", ["Report", "Head"])
    # The same question by another number is another thing heard.
    again, more = answered_to(msgspec.structs.replace(asked, seq=5))
    assert "other messages than when this party answered before" in again.ending
    assert more == []
    # Who has answered does not decline, and who has declined does not answer.
    again, more = answered_to(asked, budget=0.5)
    assert again.ending == "'Report' costs 2 per respondent; 0.5 of 0.5 is left"
    assert (again.spent, more) == (ended.spent, [])
    for budget in (None, 2.05, 9.0):
        assert answered_to(asked, budget=budget) == (ended, said)


def test_who_declined_says_so_again_and_may_consent_in_the_next_attempt(
    keys: Path, answered_to: AnswerTo
) -> None:
    ended, said = answered_to(question(keys), budget=0.5)
    assert ended.ending == "'Report' costs 2 per respondent; 0.5 of 0.5 is left"
    assert [envelope.kind for envelope in said] == ["Declined", "Head"]
    assert answered_to(question(keys), budget=9.0) == (ended, said)
    ended, said = answered_to(question(keys, attempt=2), budget=None, attempt=2)
    assert (ended.ending, ended.before.epsilon) == ("done", 0.0)
    assert [envelope.kind for envelope in said] == ["Report", "Head"]


def test_a_party_whose_receipt_does_not_hold_is_not_done(
    keys: Path, answered_to: AnswerTo, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ScriptedLink.acknowledgement

    async def another(link: ScriptedLink) -> Acknowledgement | None:
        found = await given(link)
        return found and msgspec.structs.replace(found, root=bytes(32))

    with monkeypatch.context() as patched:
        patched.setattr(ScriptedLink, "acknowledgement", another)
        ended, _ = answered_to(question(keys))
        assert ended.ending.startswith("the aggregator's receipt does NOT hold: the checkpoint is")
        assert ended.receipt is not None
        assert ended.receipt.receipt.name.startswith("refused-receipt-")
        assert "does NOT hold" in sottovoce(*ended.receipt.check.split()[1:]).out
    ended, _ = answered_to(question(keys))
    assert ended.ending == "done"


def test_a_party_without_a_receipt_is_not_done(
    keys: Path, answered_to: AnswerTo, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(link: ScriptedLink) -> None:
        return None

    monkeypatch.setattr(ScriptedLink, "acknowledgement", nothing)
    ended, _ = answered_to(question(keys))
    assert (ended.ending, ended.how, ended.code) == ("not acknowledged", NOT_ACKNOWLEDGED, 75)
    assert ended.receipt is None


def test_what_has_differed_once_is_another_story(keys: Path, tmp_path: Path) -> None:
    """The words of the first time, after another one, are not those of the first time."""
    path, first = tmp_path / "heard-1", question(keys)
    other = msgspec.structs.replace(first, seq=1)
    with remembering(path, bytes(KEY_BYTES)) as memory:
        assert [memory.again(each) for each in (first, other, first)] == [True] * 3
    content = path.read_bytes()
    with remembering(path, bytes(KEY_BYTES)) as memory:
        found = [memory.again(each) for each in (first, first, first, other)]
        assert found == [True, False, False, False]
    assert path.read_bytes() == content
    with remembering(path, bytes(KEY_BYTES)) as memory:
        assert [memory.again(each) for each in (first, other, first, other)] == [True] * 4
    assert path.read_bytes() == content + content[-2 * DIGEST_BYTES : -DIGEST_BYTES]


def test_two_programs_do_not_answer_at_once(tmp_path: Path) -> None:
    path = tmp_path / "heard-1"
    with (
        remembering(path, bytes(32)),
        pytest.raises(UsageError, match="another program is answering"),
        remembering(path, bytes(32)),
    ):
        pass
    with remembering(path, bytes(32)):
        assert path.stat().st_mode & 0o777 == 0o600


def test_other_records_draw_other_randomness(
    keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answered_to: AnswerTo
) -> None:
    drawn = []

    def machine(charter: object, name: str, stream: Stream, **others: object) -> None:
        drawn.append(stream.bytes(32))
        raise KeyError("drawn")

    monkeypatch.setattr("scenarios.surveys.answering.Machine", machine)
    for i, rows in enumerate((ROWS, ROWS, ROWS[:2], ROWS[::-1])):
        for path in (*(tmp_path / "anna").glob("heard-*"), *(tmp_path / "anna").glob("said-*")):
            path.unlink()
        with pytest.raises(KeyError, match="drawn"):
            answered_to(records=table(tmp_path / f"{i}.csv", *rows))
    with pytest.raises(KeyError, match="drawn"):
        answered_to(attempt=2)
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 4


def test_private_files_are_private(keys: Path, surveys: list[Path]) -> None:
    private = [
        *keys.glob("*/identity.key"),
        *keys.glob("*/attempts"),
        *keys.glob("*/secret"),
        *keys.glob("*/heard-*"),
        *keys.glob("*/said-*"),
        *keys.glob("*/notices-*"),
        *keys.glob("*/paid"),
    ]
    # Secrets of parties, and of their purses.
    assert len(private) == 4 + 4 + 3 + 3 + 6 + 6 + 6 + 3
    for path in private:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_nothing_secret_is_shown(keys: Path, surveys: list[Path]) -> None:
    member = read_member(keys / "anna")
    secret = (keys / "anna" / "secret").read_bytes()
    key = (keys / "anna" / "identity.key").read_text().splitlines()[1]
    assert key not in repr(member)
    for out in surveys:
        content = (out / "transcript.svt.zst").read_bytes() + (out / "result.json").read_bytes()
        assert secret not in content
        assert key.encode() not in content
    assert secret.hex() not in repr(member)


@pytest.mark.slow
def test_another_question_is_of_another_session(
    keys: Path, surveys: list[Path], tmp_path: Path
) -> None:
    """The aggregator asks again for a report that is randomized a little more."""
    folder = tmp_path / "aggregator"
    shutil.copytree(keys / "aggregator", folder)
    charter = msgspec.json.decode((folder / "charter.json").read_bytes())
    for randomizer in charter["parameters"]["randomizers"]:
        [name] = [n for n in randomizer if n not in ("type", "size")]
        randomizer[name] = int(randomizer[name]) - 2**50
    (folder / "charter.json").write_bytes(msgspec.json.encode(charter))
    with aggregating(tmp_path, tmp_path / "out", "--joining", 60) as (_, where, _):
        rows = table(tmp_path / "anna.csv", *ROWS)
        said = python(
            "-m", "scenarios", "answer", keys / "anna", "--connect", where, "--records", rows
        )
        assert complaint(said).endswith(": refused: survey: another survey")


def test_an_interrupt_while_waiting(keys: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with aggregating(keys, out) as (aggregator, _, _):
        aggregator.send_signal(signal.SIGINT)
        said, complained = aggregator.communicate(timeout=HANGS)
    assert aggregator.returncode == STOPPED
    assert said == ""
    assert complained.startswith("sottovoce: stopped by SIGINT: ")
    assert [path.name for path in out.iterdir()] == ["transcript.svt.zst.partial"]


@pytest.mark.slow
def test_without_a_quorum_the_record_says_so(keys: Path, tmp_path: Path) -> None:
    said = python(
        *("-m", "scenarios", "aggregate", keys / "aggregator", "--listen", "127.0.0.1:0"),
        *("--out", tmp_path, "--joining", 0),
    )
    assert said.code == 1
    *_, line = said.err.splitlines()
    assert line == "sottovoce: 0 of 3 sent 'Report', at least 2 needed; missing: anna, bert, carl"
    [path] = tmp_path.iterdir()
    assert path.name == "transcript.svt.zst.partial"
    ending = open_transcript(path).verify().ending
    assert ending is not None
    assert ending.reason == "QuorumError"


def test_keys_that_do_not_belong_together(keys: Path, tmp_path: Path) -> None:
    other = make_folders(tmp_path)
    records = table(tmp_path / "r.csv", *ROWS)

    def answer(folder: Path, where: str = "127.0.0.1:1", code: int = 2) -> str:
        said = sottovoce("answer", folder, "--connect", where, "--records", records)
        return complaint(said, code)

    mixed = tmp_path / "mixed"
    shutil.copytree(keys / "anna", mixed)
    shutil.copy(other / "anna" / "identity.key", mixed)
    assert "'anna' at place 1 are not proved to be on the roster" in answer(mixed)
    for file in ("identity.key", "place.json"):
        shutil.copy(keys / "bert" / file, mixed)
    assert "do not belong together" in answer(mixed)
    aggregator = tmp_path / "aggregator"
    shutil.copytree(keys / "aggregator", aggregator)
    shutil.copy(other / "aggregator" / "identity.key", aggregator)
    assert "its public key is not on the roster" in answer(aggregator)
    shutil.copy(other / "aggregator" / "roster.json", aggregator)
    assert "roster.json: its root is not the one in charter.json" in answer(aggregator)
    with aggregating(keys, tmp_path / "out") as (_, where, _):
        # Of another survey: neither side accepts the other's certificate.
        said = answer(other / "anna", where, os.EX_UNAVAILABLE)
        assert said.startswith(f"{where}: the other side's certificate is not one that is trusted")


def test_members_let_an_auditor_replay_their_words(keys: Path, surveys: list[Path]) -> None:
    for out in surveys:
        path = out / "transcript.svt.zst"
        given = [("--member", keys / name, "--records", f"{name}={out / name}.csv") for name in WHO]
        said = sottovoce("audit", path, "--member", keys / "aggregator", *given[0], *given[2])
        assert said.code == 0, said.err
        assert "2 of 2 parties whose keys and records are at hand sent what follows" in said.out
    found = sottovoce("audit", path, *given[1], "--json").json
    assert (found["replay"]["parties"], found["replay"]["follow"]) == (1, 1)


def test_an_auditor_finds_other_records(keys: Path, surveys: list[Path], tmp_path: Path) -> None:
    """Wherever an answer was kept: not in one of 24 answers only once in 400,000 surveys."""
    # Each answer is another than the one that was held.
    other = {"no,young": "yes,old", "yes,old": "no,middle", "no,middle": "yes,young"}
    held = {"anna": ROWS, "bert": ROWS[1:], "carl": ROWS[:1]}
    found = []
    for out in surveys:
        for name, rows in held.items():
            records = table(tmp_path / f"{name}.csv", *(other[row] for row in rows))
            given = ("--member", keys / name, "--records", f"{name}={records}")
            said = sottovoce("audit", out / "transcript.svt.zst", *given)
            text = f"{name} #0: the record has another 'Report', which does not follow"
            assert (text in said.out) == (said.code == 1)
            found.append(said.code)
    assert 1 in found


def test_what_an_auditor_cannot_replay(keys: Path, surveys: list[Path], tmp_path: Path) -> None:
    path, records = surveys[0] / "transcript.svt.zst", surveys[0] / "bert.csv"
    bert = ("--member", keys / "bert")
    assert "--records bert=FILE" in complaint(sottovoce("audit", path, *bert))
    assert "expected PARTY=FILE" in complaint(sottovoce("audit", path, *bert, "--records", records))
    given = ("--records", f"bert={records}")
    assert "has records already" in complaint(sottovoce("audit", path, *bert, *given, *given))
    fresh = make_folders(tmp_path)
    refused = complaint(sottovoce("audit", path, "--member", fresh / "bert", *given))
    assert "belongs to another survey than the transcript" in refused
    bare = tmp_path / "bare"
    shutil.copytree(keys / "bert", bare)
    (bare / "secret").unlink()
    refused = complaint(sottovoce("audit", path, "--member", bare, *given))
    assert "nobody has answered from this folder" in refused
    assert not (bare / "secret").exists()
    (bare / "secret").write_bytes(b"short")
    assert "expected 32 bytes" in complaint(sottovoce("audit", path, "--member", bare, *given))
