"""Contract of every variant, for tests: one line in a test file checks all of each.

    test_my_variant = contract(MyVariant(...), records, executors=EXECUTORS)
    test_my_privacy = attacked(MyVariant(...), records)
    test_my_faults = under_faults(MyVariant(...), records)

What the contract checks, on one seeded run and on reruns of it:

1. parameters: the variant is the same after a round trip through the transcript's header.
2. run: every member reaches the end of its role.
3. codec: every message keeps its bytes; mutilated bytes and foreign kinds are refused.
4. reveals: every message has an event that the accountant knows. That of a sealed kind follows
   from what everybody sees of it. A box is in a sealed kind, in a field that declares its content.
   A merged message is the same, or in another order, if two parties have exchanged their messages.
   No member learns by itself the values that masks are declared to hide.
5. replay: every member sends the same again when it receives the same.
6. non-interference: one answer of one respondent is changed and all randomness kept. A message may
   then differ only if its sender's records differ and its event is about that attribute, or if the
   sender had received something different. Lengths and recipients never differ, nor the part of a
   message outside its sealed content.
7. executors: all give the same result and the same canonical digest.
8. estimate: the published result is one that the variant can read.
9. most: no respondent is charged more than ``most``, in this run or under faults.
10. ledger: no two records can have messages with a likelihood ratio beyond the charge, purely or at
   a delta, by the laws of their randomizers, listed; nor do reports that are drawn. Every report
   charged by a law is found in its message.
11. audit: the transcript is intact; audits accept it and state the same epsilon, as text, JSON and
   page: with all parties replayed, a party's trail, a coalition with a tap and a key, the worst
   coalition, other observers and other deltas.
12. cohorts: if people can be counted in cohorts, the counts are those of a live run of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

import msgspec

from protocol.accounting.accountants import PureAccountant
from protocol.crypto.randomness import Stream
from protocol.errors import ProtocolError, RemoteProtocolError
from protocol.messages import DONE, KERNEL_KINDS, Head, Message
from protocol.session.variant import Variant, build, plain_parameters
from protocol.simulation.rehearsal import Rehearsal
from protocol.simulation.setting import Setting, make_setting
from protocol.surveys.records import Records
from protocol.testing.audits import Audited, check_audits, check_record
from protocol.testing.cohorts import check_cohorts
from protocol.testing.collected import as_test, require
from protocol.testing.likelihoods import check_frequencies, check_ledger
from protocol.testing.schedules import check_judged, check_most, check_under_faults
from protocol.testing.sealed import (
    check_boxes,
    check_events,
    check_hidden,
    check_merging,
    check_views,
)

MUTILATIONS = 200
ROWS = 8
"""The most respondents for which non-interference is checked: the first ones and the last."""


class Execution(Audited, Protocol):
    """Result of an executor."""

    @property
    def digest(self) -> bytes:
        """The canonical digest of the transcript."""

    @property
    def result(self) -> Message:
        """Message that the aggregator published."""


Executor = Callable[..., Execution]
"""Called as ``executor(variant, records, seed=..., parties=...)``."""


def check_variant(
    variant: Variant,
    records: Records,
    *,
    executors: Mapping[str, Executor],
    parties: int | None = None,
    rare: Collection[type[Message]] = (),
    seed: int = 1,
) -> tuple[str, ...]:
    """Check a variant's contract.

    Args:
        variant: the variant, with its parameters.
        records: some ten records; more only take longer.
        executors: by name; ``scenarios.EXECUTORS`` are the project's own.
        parties: number of parties that the records are spread over; by default one each.
        rare: kinds that do not occur in a run without faults.
        seed: of the runs.

    Returns:
        What the tenth part could not check, and why.

    Raises:
        AssertionError: names the broken part, and where.
    """
    _check_parameters(variant)
    setting = make_setting(variant, records, seed=seed, parties=parties)
    rehearsal = _rehearsed(setting)
    for party, ending in rehearsal.endings.items():
        require(ending == DONE, f"{party} did not end as done: {ending}")
    _check_codec(rehearsal)
    check_events(rehearsal)
    _check_kinds(rehearsal, rare)
    check_merging(rehearsal)
    check_hidden(rehearsal)
    check_most(rehearsal)
    _check_replay(rehearsal)
    _check_interference(variant, records, rehearsal, parties=parties)
    try:
        setting.charter.variant.estimate(rehearsal.published)
    except (ProtocolError, ValueError) as error:
        raise AssertionError(f"estimate refuses the variant's own result: {error}") from error
    unseen = check_ledger(rehearsal) + check_frequencies(variant, records, seed=seed)
    check_views(variant, records, rehearsal, seed=seed)
    check_record(rehearsal)
    _check_executors(variant, records, rehearsal, executors, seed=seed, parties=parties)
    check_cohorts(variant, records, seed=seed)
    return unseen


contract = as_test(check_variant)
"""A test function for pytest that checks a variant's contract."""

under_faults = as_test(check_under_faults)
"""A test function for pytest that runs a variant under seeded fault schedules."""


def _rehearsed(setting: Setting) -> Rehearsal:
    rehearsal = Rehearsal(setting)
    if rehearsal.failure is not None:
        why = "; ".join([str(rehearsal.failure), *getattr(rehearsal.failure, "__notes__", ())])
        raise AssertionError(f"the variant does not run: {why}")
    return rehearsal


def _check_parameters(variant: Variant) -> None:
    require(bool(variant.name), "the variant has no name")
    survey = msgspec.to_builtins(variant.survey)
    complaint = "the variant rebuilt from its parameters differs"
    try:
        written = msgspec.msgpack.decode(msgspec.msgpack.encode(plain_parameters(variant)))
        again = build(type(variant), parameters=written, survey=survey)
    except (ProtocolError, ValueError, TypeError) as error:
        raise AssertionError(f"{complaint}: {error}") from error
    require(again == variant, complaint)


def _check_executors(
    variant: Variant,
    records: Records,
    rehearsal: Rehearsal,
    executors: Mapping[str, Executor],
    *,
    seed: int,
    parties: int | None,
) -> None:
    codec = rehearsal.charter.codec
    first, last = [*executors][:1], [*executors][-1:]
    for name, executor in executors.items():
        execution = executor(variant, records, seed=seed, parties=parties)
        require(
            codec.encode(execution.result) == codec.encode(rehearsal.published),
            f"executor {name!r} gives another result than the local one",
        )
        require(
            execution.digest == rehearsal.digest,
            f"executor {name!r} gives another canonical digest than the local one",
        )
        if name in (*first, *last):
            check_audits(execution, rehearsal, everything=name in first)


def _check_codec(rehearsal: Rehearsal) -> None:
    codec = rehearsal.charter.codec
    stream = Stream(bytes(32))
    examples = {envelope.kind: envelope.body for envelope in rehearsal.sent.values()}
    for kind, body in examples.items():
        message = codec.decode(kind, body)
        require(
            codec.encode(message) == body,
            f"{kind!r} has other bytes when it is decoded and encoded again",
        )
        for mutilated in _mutilated(body, stream):
            try:
                decoded = codec.decode(kind, mutilated)
            except RemoteProtocolError:
                continue
            require(
                codec.encode(decoded) == mutilated,
                f"{kind!r} accepts bytes that are not canonical",
            )
    try:
        codec.decode("NoSuchKind", b"\x90")
    except RemoteProtocolError:
        return
    raise AssertionError("a foreign kind is decoded")


def _mutilated(body: bytes, stream: Stream) -> Iterable[bytes]:
    yield body + b"\x00"
    yield body[:-1]
    places = stream.integers(len(body), MUTILATIONS).tolist()
    for place, flip in zip(places, stream.integers(255, MUTILATIONS).tolist(), strict=True):
        yield body[:place] + bytes([body[place] ^ (flip + 1)]) + body[place + 1 :]


def _check_kinds(rehearsal: Rehearsal, rare: Collection[type[Message]]) -> None:
    check_judged(rehearsal)
    occurred = {
        message.kind()
        for envelope in rehearsal.sent.values()
        for message in rehearsal.messages(envelope).values()
    }
    excused = {kind.kind() for kind in (*rare, *KERNEL_KINDS)}
    for kind in rehearsal.charter.codec.names:
        require(
            kind in occurred or kind in excused,
            f"{kind!r} is declared and never sent; name it in rare if only a fault causes it",
        )


def _check_replay(rehearsal: Rehearsal) -> None:
    for member, _ in rehearsal.charter.roster.members:
        machine = rehearsal.machine(member)
        machine.start(0.0)
        said = machine.take()
        for envelope in rehearsal.heard.get(member, ()):
            machine.receive(envelope, 0.0)
            said += machine.take()
        if not machine.finished:
            machine.abandon("the rehearsal is over")
        check_boxes(rehearsal, member, machine.boxes.sealed)
        for envelope in said:
            recorded = rehearsal.sent.get((member, envelope.seq))
            require(
                recorded == envelope,
                f"{member} #{envelope.seq} ({envelope.kind!r}) differs in a second run: a role may "
                "depend on its records, its stream and what it hears only",
            )


def _check_interference(
    variant: Variant, records: Records, rehearsal: Rehearsal, *, parties: int | None
) -> None:
    survey = records.survey
    for row in sorted({*range(min(ROWS, len(records))), len(records) - 1}):
        for column, name in enumerate(survey.names):
            codes = records.codes.copy()
            codes[row, column] = (int(codes[row, column]) + 1) % survey.sizes[column]
            changed = Records(survey, codes)
            setting = make_setting(variant, changed, seed=rehearsal.setting.seed, parties=parties)
            _compare(rehearsal, _rehearsed(setting), name)


def _compare(before: Rehearsal, after: Rehearsal, attribute: str) -> None:
    accountant = PureAccountant()
    for slot in sorted(before.sent.keys() | after.sent.keys()):
        sender, seq = slot
        envelope, other = before.sent.get(slot), after.sent.get(slot)
        if envelope == other or not before.heard_alike(after, slot):
            continue
        kinds = {e.kind for e in (envelope, other) if e is not None} - {Head.kind()}
        if not kinds:
            continue  # A head signs its sender's earlier messages, which have been compared.
        where = f"{sender} #{seq} ({min(kinds)!r})"
        same_records = before.setting.holdings.get(sender) == after.setting.holdings.get(sender)
        require(not same_records, f"{where} changes with somebody else's record")
        if envelope is None or other is None or envelope.kind != other.kind:
            raise AssertionError(f"{where} is sent or not depending on a record")
        require(
            envelope.recipient == other.recipient,
            f"{where} goes to another member depending on a record",
        )
        outside = [
            getattr(before.charter.codec.decode(each.kind, each.body), "round", None)
            for each in (envelope, other)
            if before.message(each).sealed
        ]
        require(
            len(set(outside)) < 2,
            f"{where} shows another round depending on a record, outside of what is sealed",
        )
        loss = accountant.judge(before.events[slot])
        require(
            loss.attributes.get(attribute, 0.0) > 0,
            f"{where} changes with its sender's answer to {attribute!r}, "
            "and its event says that it tells nothing about that",
        )
        require(
            len(other.body) == len(envelope.body),
            f"{where} changes its length with its sender's record",
        )
