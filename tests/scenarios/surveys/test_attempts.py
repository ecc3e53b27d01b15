"""Attempts at one survey: what is signed in them contradicts nothing, and each costs anew."""

from __future__ import annotations

import errno
import itertools
import json
import math
import os
import shutil
import socket
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NoReturn

import pytest
import trio

from parties.keeping import writing
from parties.keeping.attempts import (
    ATTEMPTS,
    Allowance,
    Answers,
    Counter,
    counting,
    open_answers,
)
from parties.keeping.paying.payers import Payers
from parties.keeping.purse import PAID, purse_in
from parties.keeping.record_names import partial_path
from parties.keeping.records import GrowingTranscript
from protocol import AGGREGATOR, Coins, Masked, QuorumError, RemoteProtocolError
from protocol.accounting.spending import Cost, event_cost, together
from protocol.errors import UsageError
from protocol.session.charter import Charter
from protocol.session.roster import Identity
from protocol.session.terms import MOST_ATTEMPTS
from protocol.transcript.evidence import contradiction
from protocol.transcript.verification import Verification
from scenarios import open_transcript
from scenarios.surveys.answering import Answered
from scenarios.surveys.endings import TURNED_AWAY
from scenarios.surveys.holding.aggregating import aggregate_survey
from scenarios.surveys.holding.attempts import abandon_survey, make_ready
from scenarios.surveys.members import read_member, tls_context
from tests.scenarios.command import complaint, sottovoce
from tests.scenarios.programs import Program
from tests.scenarios.survey_folders import (
    COINS,
    ROWS,
    WHO,
    aggregating,
    hold,
    make_folders,
    table,
)
from transports.lasting.link import connect_lasting
from transports.testing import HANGS
from transports.tls import client_context

ONCE, TWICE = (dict[str, float | None](dict.fromkeys(WHO, most)) for most in (None, 4.1))


class Signing:
    """All that anybody has signed in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.signed: dict[bytes, set[bytes]] = {}
        sign = Identity.sign

        def noted(identity: Identity, content: bytes) -> bytes:
            self.signed.setdefault(identity.public, set()).add(content)
            return sign(identity, content)

        monkeypatch.setattr(Identity, "sign", noted)

    @property
    def contradictions(self) -> set[str]:
        """What two statements by one key contradict each other about."""
        return {
            about
            for key, each in self.signed.items()
            for pair in itertools.combinations(each, 2)
            if (about := contradiction(*pair, key=key)) is not None
        }

    @property
    def sizes(self) -> int:
        """How many statements there are: without any, nothing would be shown."""
        return sum(map(len, self.signed.values()))


@pytest.fixture
def signing(monkeypatch: pytest.MonkeyPatch) -> Signing:
    return Signing(monkeypatch)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return make_folders(tmp_path)


def verified(path: Path, attempt: int) -> Verification:
    """A record without a fault, of this attempt."""
    found = open_transcript(path).verify()
    assert found.faults == ()
    assert found.checked_header().attempt == attempt
    return found


class CrashedError(Exception):
    """The aggregator is gone."""


def crash(*_: object) -> None:
    raise CrashedError


# Statements


@pytest.mark.slow
def test_an_aggregator_that_begins_again_contradicts_nobody(
    keys: Path, tmp_path: Path, signing: Signing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies when all have answered and signed, and before it gives the record its name."""
    with monkeypatch.context() as patched:
        patched.setattr(GrowingTranscript, "finish", crash)
        with pytest.raises(CrashedError):
            hold(keys, tmp_path / "one", ONCE)
    first = verified(tmp_path / "one" / "transcript.svt.zst.partial", 1)
    assert len(first.signed_by) == 3
    with pytest.raises(UsageError, match="attempt 1 has begun and is not over"):
        hold(keys, tmp_path / "two", TWICE)
    member = read_member(keys / AGGREGATOR)
    for lost in (False, True):
        with pytest.raises(UsageError, match="ended well; --resume publishes it"):
            abandon_survey(member, tmp_path / "one" / "transcript.svt.zst", lost=lost)
    with pytest.raises(UsageError, match="no such file"):
        abandon_survey(member, tmp_path / "two" / "transcript.svt.zst")
    (tmp_path / "two").mkdir(exist_ok=True)
    gone = sottovoce("abandon", keys / AGGREGATOR, "--out", tmp_path / "two", "--lost")
    assert "which parties were told that they are done in attempt 1 is not known" in gone.out
    answered = hold(keys, tmp_path / "two", TWICE)
    for each in answered.values():
        assert (each.ending, each.attempt) == ("done", 2)
        assert each.spent.epsilon == pytest.approx(2)
        assert each.before.epsilon == pytest.approx(2)
    second = verified(tmp_path / "two" / "transcript.svt.zst", 2)
    assert second.intact
    assert len(second.signed_by) == 3
    assert signing.sizes > 20
    assert signing.contradictions == set()


def test_an_aggregator_that_could_not_begin_has_signed_no_ending(
    keys: Path, tmp_path: Path, signing: Signing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The port is taken, then the disk is full, then it is stopped while it waits for parties."""
    out = tmp_path / "transcript.svt.zst"

    def aggregate(port: int = 0) -> None:
        member = read_member(keys / AGGREGATOR)
        aggregate_survey(
            member, host="127.0.0.1", port=port, transcript=out, joining=60.0, listening=crash
        )

    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(OSError, match="another program listens"),
    ):
        aggregate(taken.getsockname()[1])
    assert not [*tmp_path.glob("transcript.*")]
    with monkeypatch.context() as patched:
        patched.setattr(Counter, "begin", crash)
        with pytest.raises(CrashedError):
            aggregate()
    # Perhaps that it has begun is noted all the same, so there is a record.
    assert verified(partial_path(out), 1).ending is None
    assert not make_ready(read_member(keys / AGGREGATOR), out, resume=False)
    assert not [*tmp_path.glob("transcript.*")]
    # The checkpoint of the header, twice the same.
    assert signing.sizes == 1
    with pytest.raises(CrashedError):
        aggregate()
    assert verified(partial_path(out), 1).ending is None
    assert signing.sizes == 1
    assert abandon_survey(read_member(keys / AGGREGATOR), out) == (1, (), None)
    ending = verified(partial_path(out), 1).ending
    assert ending is not None
    assert (ending.complete, ending.reason) == (False, "abandoned")
    assert signing.sizes == 2
    assert signing.contradictions == set()


@pytest.fixture
def begun(keys: Path, tmp_path: Path) -> Callable[[], Path]:
    """Begins the survey or goes on with it, and crashes as soon as it listens; gives its record."""

    def begin() -> Path:
        with pytest.raises(CrashedError):
            aggregate_survey(
                read_member(keys / AGGREGATOR),
                host="127.0.0.1",
                port=0,
                transcript=tmp_path / "transcript.svt.zst",
                joining=60.0,
                listening=crash,
                resume=True,
            )
        return partial_path(tmp_path / "transcript.svt.zst")

    return begin


DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "other bytes at its end": lambda content: content + b"garbage",
    "other bytes and zeros": lambda content: content + b"garbage" + bytes(5000),
    "a byte in the middle": lambda content: content[:700] + b"????" + content[704:] + bytes(5000),
    "no header": lambda content: bytes(len(content)),
    "nothing": lambda content: b"",
}


def test_zeros_at_the_end_of_a_record_are_cut_off(
    keys: Path, begun: Callable[[], Path], signing: Signing
) -> None:
    record = begun()
    content = record.read_bytes()
    for zeros in (1, 600, 70_000):
        record.write_bytes(record.read_bytes() + bytes(zeros))
        assert begun().read_bytes().startswith(content)
        assert not record.read_bytes().endswith(bytes(40))
    record.write_bytes(record.read_bytes() + bytes(600))
    member = read_member(keys / AGGREGATOR)
    assert abandon_survey(member, record.with_suffix("")) == (1, (), None)
    ending = verified(record, 1).ending
    assert ending is not None
    assert ending.reason == "abandoned"
    assert signing.contradictions == set()


@pytest.mark.parametrize("damage", DAMAGED)
def test_an_attempt_whose_record_is_damaged_can_be_given_up(
    damage: str, keys: Path, tmp_path: Path, begun: Callable[[], Path]
) -> None:
    record = begun()
    content = DAMAGED[damage](record.read_bytes())
    record.write_bytes(content)
    folder = keys / AGGREGATOR
    resume = ("aggregate", folder, "--listen", "127.0.0.1:0", "--joining", 1, "--resume")
    abandon = ("abandon", folder, "--out", tmp_path)
    for command in ((*resume, "--out", tmp_path), abandon):
        said = complaint(sottovoce(*command))
        assert said.startswith(f"{record}: ")
        assert "'sottovoce abandon --lost' gives the attempt up: no record will say that" in said
    assert list(folder.glob("log-secret-*"))
    assert sottovoce(*abandon, "--lost").out.splitlines()[1:] == [
        f"{record}: is damaged and stays as it is, so it does not say that the attempt is "
        "abandoned",
        "which parties were told that they are done in attempt 1 is not known",
    ]
    assert not list(folder.glob("log-secret-*"))
    assert complaint(sottovoce(*abandon, "--lost")).endswith(
        "no attempt has begun that is not over"
    )
    assert record.read_bytes() == content
    assert len(hold(keys, tmp_path / "two", ONCE)) == len(WHO)
    verified(tmp_path / "two" / "transcript.svt.zst", 2)


def test_an_attempt_whose_record_cannot_be_read_can_be_given_up(
    keys: Path, begun: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    record, member = begun(), read_member(keys / AGGREGATOR)

    def failing(file: BinaryIO) -> NoReturn:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(writing, "chunks_in", failing)
    with pytest.raises(UsageError, match="Input/output error; 'sottovoce abandon --lost' gives"):
        abandon_survey(member, record.with_suffix(""))
    assert abandon_survey(member, record.with_suffix(""), lost=True) == (1, None, record)


def test_the_record_of_another_survey_is_not_a_damaged_one(
    keys: Path, tmp_path: Path, begun: Callable[[], Path]
) -> None:
    record = begun()
    (tmp_path / "others").mkdir()
    hold(make_folders(tmp_path / "others"), tmp_path / "two", ONCE)
    other = (tmp_path / "two" / "transcript.svt.zst").read_bytes()
    record.write_bytes(other)
    for lost in (False, True):
        with pytest.raises(UsageError, match="is not the record of attempt 1"):
            abandon_survey(read_member(keys / AGGREGATOR), record.with_suffix(""), lost=lost)
    assert record.read_bytes() == other


@contextmanager
def silent(folder: Path, where: str) -> Generator[None]:
    """A party that connects and says nothing."""
    member, (host, port) = read_member(folder), where.rsplit(":", 1)
    inside, over = threading.Event(), threading.Event()

    async def listen() -> None:
        async with connect_lasting(
            host,
            int(port),
            charter=member.charter,
            identity=member.identity,
            tls=tls_context(folder, client_context),
            patience=0.0,
        ):
            inside.set()
            await trio.to_thread.run_sync(over.wait)

    with ThreadPoolExecutor(1) as pool:
        listening = pool.submit(trio.run, listen)
        try:
            assert inside.wait(HANGS)
            yield
        finally:
            over.set()
            listening.result(HANGS)


@pytest.mark.slow
def test_an_aggregator_that_is_killed_begins_again(keys: Path, tmp_path: Path) -> None:
    """Two have answered and one has not when it is killed; each is a program of its own."""
    one, two = tmp_path / "one", tmp_path / "two"
    records = table(tmp_path / "records.csv", *ROWS)

    def answering(where: str, **budgets: float | None) -> list[str]:
        programs = [
            Program(
                *("answer", keys / name, "--connect", where, "--records", records),
                *("--purse", keys / f"{name}.purse"),
                *(() if budget is None else ("--budget", budget)),
            )
            for name, budget in budgets.items()
        ]
        return [program.communicate(timeout=HANGS)[0].partition("\n")[0] for program in programs]

    with aggregating(keys, one, over=False) as (aggregator, where, told):
        assert told == ""
        with silent(keys / "carl", where):
            for said in answering(where, anna=None, bert=None):
                assert said == "done; epsilon 2 spent per respondent"
            aggregator.kill()
            aggregator.wait(timeout=HANGS)
    assert verified(one / "transcript.svt.zst.partial", 1).ending is None
    said_so = sottovoce("abandon", keys / AGGREGATOR, "--out", one)
    assert said_so.out.startswith(
        "attempt 1 is abandoned; attempt 2: a party that answered an earlier"
    )
    assert said_so.out.endswith(
        "these parties may think that they are done, and count in attempt 2 only if they answer "
        "again: anna, bert\n"
    )
    heads = "SELECT sender FROM sent WHERE kind = 'Head' ORDER BY sender"
    asked = sottovoce("query", one / "transcript.svt.zst.partial", heads)
    assert [name for name in ("anna", "bert", "carl") if name in asked.out] == ["anna", "bert"]
    assert verified(one / "transcript.svt.zst.partial", 1).ending is not None
    with aggregating(keys, two) as (aggregator, where, told):
        assert told.startswith(
            "attempt 2: a party that answered an earlier one pays again, epsilon"
        )
        said = answering(where, anna=None, bert=4.1, carl=None)
        assert aggregator.wait(timeout=HANGS) == 0
    assert said == [
        "'Report' costs 2 per respondent; 0 of 0 is left; epsilon 0 spent per respondent in "
        "attempt 2, 2 in earlier ones",
        "done; epsilon 2 spent per respondent in attempt 2, 2 in earlier ones",
        "done; epsilon 2 spent per respondent in attempt 2, 0 in earlier ones",
    ]
    assert verified(two / "transcript.svt.zst", 2).intact
    evidence = tmp_path / "evidence.json"
    checkpoint = ("--checkpoint", two / "transcript.checkpoint", "--evidence", evidence)
    assert sottovoce("verify", one / "transcript.svt.zst.partial", *checkpoint).code == 1
    assert not evidence.exists()


@pytest.mark.slow
def test_who_declined_may_consent_in_the_next_attempt(
    keys: Path, tmp_path: Path, signing: Signing
) -> None:
    one = hold(keys, tmp_path / "one", {"anna": 0.5, "bert": None, "carl": None})
    assert [each.ending for each in one.values()][1:] == ["done", "done"]
    assert one["anna"].ending == "'Report' costs 2 per respondent; 0.5 of 0.5 is left"
    two = hold(keys, tmp_path / "two", {"anna": None, "bert": 4.1, "carl": None})
    assert [each.ending for each in two.values()][:2] == ["done", "done"]
    assert two["carl"].ending == "'Report' costs 2 per respondent; 0 of 0 is left"
    assert [each.before.epsilon for each in two.values()] == pytest.approx([0, 2, 2])
    assert [each.spent.epsilon for each in two.values()] == pytest.approx([2, 2, 0])
    for attempt, out in enumerate(("one", "two"), 1):
        assert verified(tmp_path / out / "transcript.svt.zst", attempt).intact
    assert signing.contradictions == set()


def test_two_attempts_at_a_sum_with_coins_cost_two(tmp_path: Path) -> None:
    """Coins are drawn anew, so epsilons and deltas add up; a third is more than is allowed."""
    keys = make_folders(tmp_path, COINS)
    one = event_cost(Masked(Coins(400, 2**15, (("smokes",), ("age",)))), honest=2, delta=1e-6)
    budgets: dict[str, float | None] = dict.fromkeys(WHO, 2.5 * one.epsilon)
    for attempt in (1, 2):
        answered = hold(keys, tmp_path / str(attempt), budgets, honest=2, delta=2e-6)
        for each in answered.values():
            assert (each.ending, each.attempt, each.spent) == ("done", attempt, one)
            assert each.before == (Cost() if attempt == 1 else one)
    for name in WHO:
        purse = purse_in(keys / f"{name}.purse")
        assert purse is not None
        assert purse.spent(Payers(None)).most == together((one, one))
    before = {name: (keys / f"{name}.purse" / PAID).read_bytes() for name in WHO}
    with pytest.raises(QuorumError):
        hold(keys, tmp_path / "3", budgets, honest=2, delta=2e-6)
    for name in WHO:
        lines = (keys / f"{name}.purse" / PAID).read_bytes().removeprefix(before[name])
        assert {json.loads(line)["epsilon"] for line in lines.splitlines()} == {0.0}


@pytest.mark.slow
def test_a_forked_aggregator_is_convicted(keys: Path, tmp_path: Path, signing: Signing) -> None:
    """A folder that is restored from a copy has forgotten the attempt."""
    copy = tmp_path / "copy"
    shutil.copytree(keys / AGGREGATOR, copy)
    hold(keys, tmp_path / "one", ONCE)
    hold(make_copy(keys, tmp_path / "others"), tmp_path / "two", ONCE, aggregator=copy)
    assert "the checkpoint of size 1" in signing.contradictions
    evidence = tmp_path / "evidence.json"
    said = sottovoce(
        *("verify", tmp_path / "one" / "transcript.svt.zst", "--evidence", evidence),
        *("--checkpoint", tmp_path / "two" / "transcript.checkpoint"),
    )
    assert said.code == 1
    assert "two checkpoints that contradict each other" in said.out
    assert "was signed twice" in sottovoce("evidence", evidence).out


def make_copy(keys: Path, there: Path) -> Path:
    """The folders of parties that have forgotten all, with other secrets."""
    sessions = [f"{what}-*" for what in ("heard", "said", "receipt", "checkpoint", "notices")]
    kept = shutil.ignore_patterns("secret", ATTEMPTS, *sessions, "*.purse")
    return Path(shutil.copytree(keys, there, ignore=kept))


@pytest.mark.slow
def test_a_forked_party_is_convicted(keys: Path, tmp_path: Path, signing: Signing) -> None:
    """Two folders of one party answer one attempt, differently."""
    hold(keys, tmp_path / "one", ONCE)
    found: set[str] = set()
    # Reports are as uncertain as they are private, so they may be the same by chance.
    for turn in range(6):
        copy = make_copy(keys, tmp_path / f"others-{turn}")
        hold(copy, tmp_path / f"two-{turn}", ONCE)
        found = signing.contradictions
        if any("the head of 'anna'" in about for about in found):
            break
    assert any("the head of 'anna' over 1 envelopes" in about for about in found)


# The aggregator's counter


def header(text: str) -> Callable[[int], bytes]:
    return lambda attempt: f"{text} {attempt}".encode()


def taken(folder: Path, text: str = "a") -> tuple[int, bytes]:
    with counting(folder) as counter:
        return counter.take(header(text)), counter.secret()


def held(counter: Counter) -> None:
    counter.take(header("a"))
    counter.begin()
    counter.finish()


def test_an_attempt_that_has_not_begun_is_taken_again(tmp_path: Path) -> None:
    first = taken(tmp_path)
    assert first[0] == 1
    assert taken(tmp_path) == first
    with counting(tmp_path) as counter:
        held(counter)
    assert not [*tmp_path.glob("log-secret-*")]
    second = taken(tmp_path)
    assert second[0] == 2
    assert second[1] != first[1]
    assert [path.name for path in tmp_path.glob("log-secret-*")] == ["log-secret-2"]


def test_a_number_stands_until_its_attempt_is_over(tmp_path: Path) -> None:
    with counting(tmp_path) as counter:
        assert counter.take(header("a")) == 1
        secrets = counter.secret(), counter.stream_secret()
        assert len(set(secrets)) == 2
        counter.begin()
        for text in ("a", "b"):
            with pytest.raises(UsageError, match="--resume goes on with it"):
                counter.take(header(text))
    with counting(tmp_path) as counter:
        # Begun once more, it is the same; its secrets are there to go on with.
        counter.begin()
        assert (counter.secret(), counter.stream_secret()) == secrets
        counter.finish()
        counter.finish()
    assert sorted(path.name for path in tmp_path.iterdir()) == [ATTEMPTS]
    assert len((tmp_path / ATTEMPTS).read_text().splitlines()) == 3
    assert taken(tmp_path)[0] == 2


def test_another_header_is_another_attempt(tmp_path: Path) -> None:
    """Another version of the program begins another log."""
    assert taken(tmp_path)[0] == 1
    assert taken(tmp_path, "b")[0] == 2
    assert taken(tmp_path, "b")[0] == 2


@pytest.mark.parametrize("cut", [1, 30, 60])
def test_a_crash_while_a_number_is_written(cut: int, tmp_path: Path) -> None:
    """What was not written whole was not acted on."""
    with counting(tmp_path) as counter:
        held(counter)
        counter.take(header("a"))
    path = tmp_path / ATTEMPTS
    path.write_bytes(path.read_bytes()[:-cut])
    first = taken(tmp_path)
    assert first[0] == 2
    assert taken(tmp_path) == first


def test_a_spoilt_file_is_not_guessed_at(tmp_path: Path) -> None:
    for kind in (counting, open_answers):
        (tmp_path / ATTEMPTS).write_text('{"attempt": 101}\n')
        with (
            pytest.raises(UsageError, match="what was begun or spent is not known"),
            kind(tmp_path),
        ):
            pass


def test_two_programs_do_not_take_part_at_once(tmp_path: Path) -> None:
    for kind in (counting, open_answers):
        folder = tmp_path / kind.__name__
        folder.mkdir()
        with (
            kind(folder),
            pytest.raises(UsageError, match="another program is taking part from this folder"),
            kind(folder),
        ):
            pass


def test_nothing_begins_without_a_number(tmp_path: Path) -> None:
    with counting(tmp_path) as counter:
        for step in (counter.begin, counter.secret, counter.stream_secret, counter.finish):
            with pytest.raises(RuntimeError, match="take an attempt before"):
                step()
    assert [path.name for path in tmp_path.iterdir()] == [ATTEMPTS]
    assert (tmp_path / ATTEMPTS).read_bytes() == b""


def test_a_survey_is_not_begun_for_ever(tmp_path: Path) -> None:
    line = json.dumps({"attempt": MOST_ATTEMPTS, "header": "", "state": "over"})
    (tmp_path / ATTEMPTS).write_text(f"{line}\n")
    with pytest.raises(UsageError, match="begun 100 times"):
        taken(tmp_path)


# A party's answers


def test_a_party_that_dies_before_its_answer_leaves_has_paid(
    keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("transports.lasting.link.LastingLink.send_nowait", crash)
        with pytest.raises(CrashedError):
            hold(keys, tmp_path / "one", {"anna": None})
    two = hold(keys, tmp_path / "two", {"anna": None, "bert": None, "carl": None})
    assert (two["anna"].spent.epsilon, two["anna"].before.epsilon) == (0.0, pytest.approx(2))
    assert two["bert"].ending == "done"


def left(answers: Answers, attempt: int, budget: float | None, *, most: float) -> float:
    """What may be spent in an attempt where nothing was spent on other surveys."""
    rest = None if budget is None else Allowance(budget).rest(answers.before(attempt))
    return answers.allowed(attempt, rest, most=most).epsilon


def test_what_was_spent_counts_in_later_attempts(tmp_path: Path) -> None:
    with open_answers(tmp_path) as answers:
        assert left(answers, 1, None, most=2.0) == math.inf
        assert left(answers, 1, 3.0, most=2.0) == 3.0
        answers.note(1, allowed=Allowance(math.inf), cost=Cost(0.5))
        answers.note(1, allowed=Allowance(math.inf), cost=Cost(1.5))
        answers.note(1, allowed=Allowance(math.inf), cost=Cost(1.0))
    with open_answers(tmp_path) as answers:
        # In one attempt, what was allowed when it spoke.
        assert left(answers, 1, None, most=2.0) == math.inf
        assert left(answers, 1, math.inf, most=2.0) == math.inf
        assert answers.before(1).epsilon == 0.0
        assert answers.before(2).epsilon == 1.5
        assert left(answers, 2, None, most=2.0) == 0.5
        assert left(answers, 2, 1.0, most=2.0) == 0.0
        answers.note(2, allowed=Allowance(0.5), cost=Cost(0.0))
        assert left(answers, 2, None, most=2.0) == 0.5
        assert left(answers, 3, 4.0, most=2.0) == 2.5
        answers.note(3, allowed=Allowance(math.inf), cost=Cost(math.inf))
    with open_answers(tmp_path) as answers:
        assert left(answers, 4, None, most=math.inf) == 0.0
        assert left(answers, 4, 100.0, most=math.inf) == 0.0
        assert left(answers, 4, math.inf, most=math.inf) == math.inf
        assert len((tmp_path / ATTEMPTS).read_text().splitlines()) == 4


def test_a_smaller_budget_holds_in_the_same_attempt(tmp_path: Path) -> None:
    """Of two rounds the first is said; what it costs is never allowed twice."""
    with open_answers(tmp_path) as answers:
        answers.note(1, allowed=Allowance(math.inf), cost=Cost(1.0))
        answers.note(2, allowed=Allowance(math.inf), cost=Cost(1.5))
        for budget, rest in ((1.1, 0.1), (0.5, 0.0), (2.75, 1.75), (9.0, 8.0)):
            assert left(answers, 2, budget, most=4.0) == pytest.approx(rest)
        # It would decline at once, but has answered: nothing leaves, and nothing is noted.
        answers.note(2, allowed=Allowance(0.1), cost=Cost(0.0))
        assert left(answers, 2, None, most=4.0) == math.inf
        # It has said the same again, and then declined the second round: so it does ever after.
        answers.note(2, allowed=Allowance(1.75), cost=Cost(0.0))
        answers.note(2, allowed=Allowance(1.75), cost=Cost(1.5))
    with open_answers(tmp_path) as answers:
        for again in (None, 9.0, math.inf):
            assert left(answers, 2, again, most=4.0) == 1.75
        assert left(answers, 2, 1.1, most=4.0) == pytest.approx(0.1)
        assert answers.before(3).epsilon == 2.5
        lines = (tmp_path / ATTEMPTS).read_text().splitlines()
        answers.note(2, allowed=Allowance(1.75), cost=Cost(1.5))
        assert (tmp_path / ATTEMPTS).read_text().splitlines() == lines


def test_what_may_cost_without_bound_is_not_answered_twice_by_default(tmp_path: Path) -> None:
    """A variant that promises nothing (``Variant.most``), of which one attempt cost little."""
    with open_answers(tmp_path) as answers:
        assert left(answers, 1, None, most=math.inf) == math.inf
        answers.note(1, allowed=Allowance(math.inf), cost=Cost(0.0))
        assert left(answers, 2, None, most=math.inf) == math.inf
        answers.note(2, allowed=Allowance(math.inf), cost=Cost(2.0))
    with open_answers(tmp_path) as answers:
        assert left(answers, 3, None, most=math.inf) == 0.0
        assert left(answers, 3, 4.5, most=math.inf) == 2.5
        assert left(answers, 3, math.inf, most=math.inf) == math.inf


def test_an_attempt_before_one_that_was_answered_is_refused(tmp_path: Path) -> None:
    with open_answers(tmp_path) as answers:
        answers.check(1)
        answers.note(3, allowed=Allowance(math.inf), cost=Cost(0.0))
        answers.check(3)
        answers.check(4)
        with pytest.raises(RemoteProtocolError, match="1, but this party has answered attempt 3"):
            answers.check(1)


def test_a_party_stays_away_from_an_earlier_attempt(keys: Path, tmp_path: Path) -> None:
    """An aggregator that goes back to a number gets nothing, and nothing is spent."""
    with open_answers(keys / "anna") as answers:
        answers.note(2, allowed=Allowance(math.inf), cost=Cost(2.0))
    merging = ("purse", "--purse", keys / "anna.purse", "--merge", keys / "anna")
    assert sottovoce(*merging).code == 0
    before = (keys / "anna" / ATTEMPTS).read_bytes()
    found: dict[str, Answered] = {}
    with pytest.raises(QuorumError):
        hold(keys, tmp_path / "out", {"anna": 9.0}, ended=found)
    assert "attempt: 1, but this party has answered attempt 2" in found["anna"].ending
    assert (found["anna"].how, found["anna"].spent.epsilon) == (TURNED_AWAY, 2.0)
    assert (keys / "anna" / ATTEMPTS).read_bytes() == before
    assert not [*(keys / "anna").glob("heard-*")]


def test_a_charter_knows_its_attempts(keys: Path) -> None:
    charter: Charter = read_member(keys / "anna").charter
    assert charter.attempt == 1
    assert charter.session == charter.survey_id
    sessions = [charter.again(n).session for n in range(1, MOST_ATTEMPTS + 1)]
    assert len(set(sessions)) == MOST_ATTEMPTS
    assert {charter.again(n).survey_id for n in (1, 2, 100)} == {charter.survey_id}
    assert charter.again(2).find_attempt(sessions[6]) == 7
    assert charter.find_attempt(bytes(32)) is None
    for attempt in (0, -1, MOST_ATTEMPTS + 1, 2**63):
        with pytest.raises(ValueError, match="expected 1 to 100"):
            charter.again(attempt)
