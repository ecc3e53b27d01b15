"""``simulate``: faults, budgets, notebooks, and what an outcome shows of itself."""

from __future__ import annotations

import asyncio
import gc
import inspect
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from parties.keeping.packing import Packer, Unpacked
from parties.keeping.records import growing
from protocol import Attribute, PartyId, QuorumError, Records, Survey, SurveyError
from protocol.audit.walk import Fold, Step
from protocol.errors import UsageError
from protocol.session.charter import Charter
from protocol.session.fates import Verdict
from protocol.transcript.entries import Entry, Sent
from protocol.variants import RRIndependent, RRJoint
from scenarios import EXECUTORS, Outcome, Transcript, simulate, simulate_async, town
from scenarios.data.town import TOWN
from scenarios.files.transcripts import Unfiled
from scenarios.running.simulation import TRANSPORTS, TransportName
from tests.tiers import thinned
from transports.faults import Fault, crash, cut, delay, drop, duplicate

RECORDS = town(24, seed=2)
VARIANT = RRIndependent.with_keep(TOWN, 0.6)
TWO = PartyId("party-02")


@pytest.mark.parametrize("transport", thinned(TRANSPORTS, 2))
def test_cuts_and_duplicates_lose_nobody_else(transport: TransportName) -> None:
    rules = (cut(0.3, kind="Report"), duplicate(0.5), delay(0.001, share=0.5))
    outcome = simulate(VARIANT, RECORDS, transport=transport, rules=rules)
    cut_off = outcome.trouble["link cut"]
    assert 0 < cut_off < 24
    assert outcome.counted == outcome.estimate.n == 24 - cut_off
    assert outcome.digest == simulate(VARIANT, RECORDS, rules=rules).digest
    assert outcome.transcript.audit(RRIndependent, digest=outcome.digest).verdict == "sound"


@pytest.mark.parametrize("transport", thinned(TRANSPORTS, 3))
def test_delays_lose_nobody(transport: TransportName) -> None:
    outcome = simulate(VARIANT, RECORDS, transport=transport, rules=(delay(0.01),))
    assert (outcome.counted, outcome.trouble) == (24, {})
    assert outcome.digest == simulate(VARIANT, RECORDS).digest


def test_without_faults_nothing_is_changed() -> None:
    assert simulate(VARIANT, RECORDS, rules=(drop(0.0),)).digest == (
        simulate(VARIANT, RECORDS).digest
    )


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_nobody_is_too_few(transport: TransportName) -> None:
    with pytest.raises(QuorumError, match="0 of 24 sent 'Report', at least 12 needed"):
        simulate(VARIANT, RECORDS, transport=transport, rules=(crash(1.0, kind="Report"),))


@pytest.mark.parametrize("transport", thinned(TRANSPORTS, 2))
def test_a_party_keeps_to_its_budget(transport: TransportName) -> None:
    with pytest.raises(QuorumError):
        simulate(VARIANT, RECORDS, transport=transport, budget=0.1)
    outcome = simulate(VARIANT, RECORDS, transport=transport, budget=7.0)
    assert outcome.counted == 24


def test_one_crash_by_name() -> None:
    rules = (Fault(verdict=Verdict.CRASH, sender=TWO),)
    outcome = simulate(VARIANT, RECORDS, rules=rules)
    assert outcome.trouble == {"crashed": 1}
    [closing] = outcome.completeness.closings
    assert closing.missing == (TWO,)


@pytest.mark.slow
def test_the_executors_are_all_of_them() -> None:
    digests = {executor(VARIANT, RECORDS, seed=9).digest for executor in EXECUTORS.values()}
    assert tuple(EXECUTORS) == TRANSPORTS
    assert len(digests) == 1


def test_inside_a_notebook() -> None:
    async def cell() -> Outcome:
        return simulate(VARIANT, RECORDS, transport="memory")

    assert asyncio.run(cell()).digest == simulate(VARIANT, RECORDS).digest


def test_a_simulation_is_described_where_it_is_called() -> None:
    described = inspect.signature(simulate)
    assert described == inspect.signature(simulate_async)
    assert [*described.parameters][:3] == ["variant", "records", "seed"]
    assert described.return_annotation == "Outcome[V]"
    assert all(f"        {name}: " in str(simulate.__doc__) for name in described.parameters)
    assert pickle.loads(pickle.dumps((simulate, simulate_async))) == (simulate, simulate_async)


async def test_inside_a_trio_program() -> None:
    outcome = await simulate_async(VARIANT, RECORDS, transport="tcp")
    assert outcome.counted == 24
    with pytest.raises(UsageError, match="call simulate"):
        await simulate_async(VARIANT, RECORDS, transport="local")
    with pytest.raises(RuntimeError):
        simulate(VARIANT, RECORDS, transport="memory")
    await trio.lowlevel.checkpoint()


def test_the_collector_works_on_afterwards() -> None:
    assert gc.isenabled()
    seen: list[bool] = []
    simulate(VARIANT, RECORDS, watch=lambda charter: lambda entry: seen.append(gc.isenabled()))
    assert set(seen) == {False}
    assert gc.isenabled()


@pytest.mark.parametrize("transport", ["local", "memory"])
def test_who_watches_is_told_what_is_recorded(transport: TransportName) -> None:
    told: list[Entry] = []
    charters: list[Charter] = []

    def watch(charter: Charter) -> Callable[[Entry], object]:
        charters.append(charter)
        return told.append

    outcome = simulate(VARIANT, RECORDS, transport=transport, watch=watch)
    assert charters == [outcome.charter]
    assert told == list(outcome.transcript.entries())
    assert sum(isinstance(entry, Sent) for entry in told) == outcome.messages == 3 * 24 + 2


def test_records_of_another_survey() -> None:
    other = Survey("Other", (Attribute(name="a", categories=("x", "y")),))
    with pytest.raises(SurveyError, match="another survey"):
        simulate(RRJoint.with_keep(other, 0.5), RECORDS)


def test_a_file_is_the_transcript_without_one(tmp_path: Path) -> None:
    path = tmp_path / "new" / "t.svt"
    filed = simulate(VARIANT, RECORDS, path=path)
    kept = simulate(VARIANT, RECORDS)
    assert filed.transcript.path == path
    assert filed.digest == kept.digest
    content = b"".join(kept.transcript.chunks())
    assert b"".join(filed.transcript.chunks()) == content
    assert b"".join(Unpacked(path.read_bytes())) == content
    assert len(content) > path.stat().st_size
    assert str(path) in repr(filed.transcript)
    assert "B, in no file" in repr(kept.transcript)


def test_a_growing_file_replaces_nothing_before_its_end(tmp_path: Path) -> None:
    path, partial = tmp_path / "t.svt", tmp_path / "t.svt.partial"
    simulate(VARIANT, RECORDS, path=path)
    earlier = path.read_bytes()
    content = b"".join(Unpacked(earlier))
    checkpoint = tmp_path / "t.checkpoint"

    def failing(error: Exception, *, begun: bool) -> None:
        with growing(path) as file:
            file.write(content[:-1])
            if begun:
                file.keep()
            raise error

    for error in (ZeroDivisionError("one"), OSError("two")):
        with pytest.raises(type(error), match=str(error)):
            failing(error, begun=False)
        assert not partial.exists()
    with pytest.raises(ZeroDivisionError):
        failing(ZeroDivisionError(), begun=True)
    assert partial.read_bytes() == Packer().pack(content[:-1])
    with growing(path) as file:
        file.write(content * 2)
        assert path.read_bytes() == earlier
        assert checkpoint.exists()
        file.finish(None)
        assert path.read_bytes() == Packer().pack(content * 2)
        assert not checkpoint.exists()
    assert list(tmp_path.iterdir()) == [path]


def test_an_outcome_shows_no_secret_and_escapes_the_rest() -> None:
    survey = Survey(
        "<script>alert(1)</script>",
        (
            Attribute(name="<b>a", categories=("<i>x", "y&z")),
            Attribute(name="b", categories=("u", "v")),
        ),
    )
    records = Records.from_rows(survey, [{"<b>a": "<i>x", "b": "u"}] * 5)
    outcome = simulate(RRIndependent.with_keep(survey, 0.5), records)
    html = outcome._repr_html_()
    assert "<script>" not in html
    assert "<b>a" not in html
    assert "<i>x" not in html
    assert "y&z" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert outcome.digest.hex() in html
    assert repr(outcome) == (
        f"<Outcome: rr-independent, 5 parties over local, digest {outcome.digest.hex()[:16]}>"
    )


def test_what_is_found_of_many_parties_has_a_short_repr() -> None:
    records = town(300, seed=1)
    variant = RRIndependent.with_keep(records.survey, 0.5)
    outcome = simulate(variant, records, transport="memory", rules=[crash(0.3)])
    audited = outcome.transcript.audit(RRIndependent)
    counted = f"{outcome.counted} of 300"
    assert repr(audited.completeness).startswith(f"<Completeness: {counted} parties counted, ")
    [closing] = audited.completeness.closings
    assert repr(closing) == f"<Closing: Report, {counted} counted>"
    assert repr(audited.verification).startswith("<Verification: sound, ")
    assert repr(audited) == "<Audit: rr-independent, sound, 0 faults and findings>"


def test_a_long_transcript_without_a_file_goes_to_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenarios.files.transcripts.IN_MEMORY", 1000)
    unfiled = Unfiled()
    parts = [bytes([i]) * 600 for i in range(5)]
    for part in parts:
        unfiled.write(part)
        # It is read while it grows, by two at once.
        first, second = unfiled.chunks(), unfiled.chunks()
        assert next(first) == next(second)
    assert unfiled._file._rolled
    assert b"".join(unfiled.chunks()) == b"".join(parts)
    assert repr(Transcript(unfiled=unfiled)) == "Transcript(3000 B, in no file)"
    assert list(Transcript().chunks()) == []


def test_the_collector_rests_while_a_record_is_judged() -> None:
    seen = []

    class Watched(Fold):
        def add(self, step: Step) -> None:
            seen.append(gc.isenabled())

    transcript = simulate(VARIANT, RECORDS).transcript
    assert transcript.audit(RRIndependent, folds=[Watched()]).verdict == "sound"
    assert set(seen) == {False}
    assert gc.isenabled()
