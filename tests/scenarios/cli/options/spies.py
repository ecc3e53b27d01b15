"""What stands in for servers, clients, engines and all that takes long, and notes what it gets."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from parties.keeping.members import Member
from protocol import Records
from protocol.accounting.spending import Cost
from protocol.attack.active.active import attack_actively
from protocol.attack.attack import attack
from protocol.session.variant import plain_parameters
from protocol.variants import BUILT_IN
from scenarios.cli import witness as witness_command
from scenarios.cli.options import within_budget
from scenarios.report.served import Compared, Page
from scenarios.running import simulation
from scenarios.running.engines.here import Here
from scenarios.surveys.answering import Answered, Answering
from scenarios.surveys.endings import DONE_NOW
from scenarios.surveys.holding.serving import Serving
from scenarios.surveys.operating.operation import Operation
from scenarios.surveys.rehearsing import Rehearsed
from scenarios.surveys.witnessing.state import Witness
from tests.scenarios.cli.options.inputs import Inputs
from transports.admission import Network

Passed = list[object]


def budgets(patch: pytest.MonkeyPatch, passed: Passed, inputs: Inputs) -> None:
    """The budget that a command is given; it keeps to it."""

    def within(seconds: float, megabytes: int) -> contextlib.AbstractContextManager[None]:
        passed.append((seconds, megabytes))
        return within_budget(seconds, megabytes)

    patch.setattr("scenarios.cli.options.within_budget", within)


def engines(patch: pytest.MonkeyPatch, passed: Passed, inputs: Inputs) -> None:
    """The engine that is opened; this process stands in for it."""

    def opened(name: str, **options: object) -> Here:
        passed.append((name, options))
        return Here()

    patch.setattr("scenarios.cli.engines.open_engine", opened)


def simulations(patch: pytest.MonkeyPatch, passed: Passed, inputs: Inputs) -> None:
    """The engine that is opened for workers, and what carries messages; neither is there."""
    engines(patch, passed, inputs)
    simulated = simulation.simulate

    def simulate(*arguments: Any, workers: int | None, engine: Any, **options: Any) -> Any:
        passed.append((workers, options["transport"]))
        return simulated(*arguments, **options)

    patch.setattr("scenarios.running.scenario.simulate", simulate)


def only(name: str) -> Callable[[pytest.MonkeyPatch, Passed, Inputs], None]:
    """One built-in variant to choose; all of them take long."""

    def replaced(patch: pytest.MonkeyPatch, passed: Passed, inputs: Inputs) -> None:
        for module in ("designing.candidates", "cli.surveys.designing"):
            patch.setattr(f"scenarios.{module}.BUILT_IN", {name: BUILT_IN[name]})

    return replaced


def piece(number: int) -> int:
    """A piece of work for an engine."""
    return number


def checks(patch: pytest.MonkeyPatch, passed: Passed, inputs: Inputs) -> None:
    """What a variant is tested with; nothing is tested."""

    def check(
        variant: Any, records: Records, *, carried: Any = None, **options: Any
    ) -> tuple[str, ...]:
        if carried is not None:
            carried(piece, [1])
        executors: Mapping[str, object] = options.pop("executors", {})
        parameters = plain_parameters(variant)
        passed.append((variant.survey, parameters, len(records), sorted(executors), options))
        return ()

    for name in ("check_variant", "check_under_faults"):
        patch.setattr(f"protocol.testing.{name}", check)
    engines(patch, passed, inputs)


def attacks(patch: pytest.MonkeyPatch, passed: Passed, inputs: Inputs) -> None:
    """What a variant is attacked with; it is."""

    def noting(attack: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any, **options: Any) -> Any:
            plain = {name: given for name, given in options.items() if not callable(given)}
            passed.append(plain)
            return attack(*arguments, **options)

        return noted

    patch.setattr("protocol.attack.attack.attack", noting(attack))
    patch.setattr("protocol.attack.active.active.attack_actively", noting(attack_actively))
    engines(patch, passed, inputs)


def pages(patch: pytest.MonkeyPatch, passed: Passed, inputs: Inputs) -> None:
    """The page that is fetched, which is another one; nobody serves it."""

    def compare(url: str) -> Compared:
        passed.append(url)
        return Compared(url, Page(b"", ""), Page(b"own", ""), ("its bytes are others",))

    patch.setattr("scenarios.report.served.compare_page", compare)


def answering(patch: pytest.MonkeyPatch, passed: Passed, inputs: Inputs) -> None:
    """What a party answers with; nobody is asked."""

    async def answer(
        member: Member, answering: Answering, *, repeat: Member | None, **options: Any
    ) -> Answered:
        passed.append((member.identity.name, answering, repeat and repeat.folder, options))
        return Answered(how=DONE_NOW, ending="done", attempt=1, spent=Cost(1.0), before=Cost())

    patch.setattr("scenarios.cli.surveys.answering.answer_survey", answer)


def aggregating(patch: pytest.MonkeyPatch, passed: Passed, inputs: Inputs) -> None:
    """How a survey is held; another one's outcome is published, and no witness is asked."""
    outcome = inputs.outcome

    def aggregate(
        member: Member,
        *,
        host: str,
        port: int,
        transcript: Path,
        joining: float,
        begin: Callable[[None], str] | None,
        publish: Callable[[object], object],
        resume: bool,
        without_missing: bool,
        operation: Operation,
        **others: object,
    ) -> None:
        seen = (host, port, transcript, joining, resume, without_missing, operation.trusted)
        passed.append(seen)
        if begin is not None:
            begin(None)
        transcript.parent.mkdir(exist_ok=True)
        publish(outcome)

    def begin(recorder: None, asked: Sequence[object], *, needed: int, **others: object) -> str:
        passed.append((asked, needed))
        return ""

    patch.setattr("scenarios.cli.surveys.holding.aggregate_survey", aggregate)
    patch.setattr("scenarios.cli.surveys.holding.begin", begin)
    patch.setattr("scenarios.cli.surveys.holding.cosign_checkpoint", lambda *_: ())


def collecting(patch: pytest.MonkeyPatch, passed: Passed, inputs: Inputs) -> None:
    """Note how answers are collected, likewise, and do not wait for requests for receipts."""
    aggregating(patch, passed, inputs)
    outcome = inputs.outcome

    def collect(
        member: Member,
        *,
        page: object,
        serving: Serving,
        parties: tuple[str, int] | None,
        transcript: Path,
        begin: Callable[[None], str] | None,
        publish: Callable[[object], object],
        resume: bool,
        without_missing: bool,
        **others: object,
    ) -> None:
        passed.append(
            (serving, serving.context() is not None, parties, transcript, resume, without_missing)
        )
        if begin is not None:
            begin(None)
        transcript.parent.mkdir(exist_ok=True)
        publish(outcome)

    def serve(member: Member, *, transcript: Path, **others: object) -> None:
        passed.append(transcript)

    patch.setattr("scenarios.cli.surveys.collecting.collect_survey", collect)
    patch.setattr("scenarios.cli.surveys.collecting.serve_receipts", serve)


def closing(patch: pytest.MonkeyPatch, passed: Passed, inputs: Inputs) -> None:
    """Whether what is held from the folder ends before its time; nothing is held."""

    def close(folder: Path, *, early: bool) -> str:
        passed.append(early)
        return ""

    patch.setattr("scenarios.cli.surveys.holding.close_joining", close)


def collecting_exposed(patch: pytest.MonkeyPatch, passed: Passed, inputs: Inputs) -> None:
    """The same, with metrics."""
    pytest.importorskip("prometheus_client")
    collecting(patch, passed, inputs)


def exposing(patch: pytest.MonkeyPatch, passed: Passed, inputs: Inputs) -> None:
    """The same, with metrics."""
    pytest.importorskip("prometheus_client")
    aggregating(patch, passed, inputs)


def rehearsing(patch: pytest.MonkeyPatch, passed: Passed, inputs: Inputs) -> None:
    """What a rehearsal is made of; no process is started."""

    def rehearse(
        plan: object,
        held: Mapping[str, Records],
        out: Path,
        *,
        kill: str | None,
        reported: Sequence[object],
        hear: object,
    ) -> Rehearsed:
        rows = {name: records.codes.tolist() for name, records in held.items()}
        passed.append((rows, out, kill, reported))
        return Rehearsed(0, "", {}, kill)

    patch.setattr("scenarios.surveys.rehearsing.rehearse", rehearse)


def witnessing(patch: pytest.MonkeyPatch, passed: Passed, inputs: Inputs) -> None:
    """What a witness serves; nobody can ask it."""
    opened = witness_command.witnessing

    async def serve(
        witness: Witness, *, host: str, port: int, trusted: Sequence[Network], **others: object
    ) -> None:
        passed.append((host, port, trusted))

    @contextlib.contextmanager
    def witnessing(key: Path, state: Path, trusted: Sequence[str], clock: Any) -> Generator[Any]:
        passed.append(trusted)
        with opened(key, state, trusted, clock) as witness:
            yield witness

    patch.setattr(witness_command, "serve", serve)
    patch.setattr(witness_command, "witnessing", witnessing)
