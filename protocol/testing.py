"""The contract that every variant must meet, for tests: one line in a test file checks all of it.

    test_my_variant = contract(MyVariant(...), records, executors=EXECUTORS)

What is checked, on one seeded run and on reruns of it:

1. parameters: the variant comes back from its transcript header as it was.
2. run: everybody comes to the end of its role.
3. codec: every message keeps its bytes; mutilated bytes and foreign kinds are refused.
4. reveals: every message has an event that the accountant knows.
5. replay: every member says the same again when it hears the same.
6. non-interference: change one answer of one respondent and keep all randomness; then a message may
   differ only if its sender's records differ and its event says that it tells about that attribute,
   or if the sender had heard something different. Lengths never differ.
7. executors: all give the same result and the same canonical digest.
8. estimate: the published result is one that the variant can read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

import msgspec

from protocol.charter import Charter
from protocol.codec import decode_envelope
from protocol.errors import ProtocolError, RemoteProtocolError
from protocol.exchange import Exchange
from protocol.local import DONE, ROLE_STREAM, run_locally
from protocol.machine import Machine
from protocol.messages import KERNEL_KINDS, Envelope, Message, PartyId
from protocol.privacy.accountants import PureAccountant
from protocol.privacy.events import PrivacyEvent
from protocol.randomness import Stream
from protocol.records import Records
from protocol.roles import Seen
from protocol.setting import Setting, setting_of
from protocol.transcript.entries import Delivered, Sent
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.recorder import Recorder
from protocol.variant import Variant, build, event_of, parameters_of

MUTILATIONS = 200
ROWS = 8
"""For how many respondents non-interference is checked: the first ones and the last."""


class Execution(Protocol):
    """What an executor returns."""

    @property
    def digest(self) -> bytes:
        """The canonical digest of the transcript."""

    @property
    def result(self) -> Message:
        """What the aggregator published."""


Executor = Callable[..., Execution]
"""Called as ``executor(variant, records, seed=..., parties=...)``."""


def contract(
    variant: Variant,
    records: Records,
    *,
    executors: Mapping[str, Executor],
    parties: int | None = None,
    rare: Collection[type[Message]] = (),
    seed: int = 1,
) -> Callable[[], None]:
    """A test function for pytest that checks a variant's contract.

    Args:
        variant: the variant, with its parameters.
        records: some ten records; more only take longer.
        executors: by name; ``scenarios.EXECUTORS`` are the project's own.
        parties: over how many the records are spread; by default one each.
        rare: kinds that do not occur in a run without faults.
        seed: of the runs.
    """

    def test_contract() -> None:
        check_variant(variant, records, executors=executors, parties=parties, rare=rare, seed=seed)

    return test_contract


def check_variant(
    variant: Variant,
    records: Records,
    *,
    executors: Mapping[str, Executor],
    parties: int | None = None,
    rare: Collection[type[Message]] = (),
    seed: int = 1,
) -> None:
    """Check a variant's contract; arguments as for ``contract``.

    Raises:
        AssertionError: says which part is broken, and where.
    """
    setting = setting_of(variant, records, seed=seed, parties=parties)
    _check_parameters(setting.charter.variant)
    rehearsal = _rehearsed(setting)
    for party, ending in rehearsal.endings.items():
        _require(ending == DONE, f"{party} did not come to the end of its role: {ending}")
    _check_codec(rehearsal)
    _check_kinds(rehearsal, rare)
    _check_replay(rehearsal)
    _check_interference(variant, records, rehearsal, parties=parties)
    _check_executors(variant, records, rehearsal, executors, seed=seed, parties=parties)
    try:
        setting.charter.variant.estimate(rehearsal.result)
    except (ProtocolError, ValueError) as error:
        raise AssertionError(f"estimate refuses the variant's own result: {error}") from error


class _Rehearsal:
    """One recorded run on the local executor."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        parts: list[bytes] = []
        recorder = Recorder(parts.append, setting.charter.header(seed=setting.seed))
        exchange = Exchange(setting.charter, recorder=recorder)
        run = run_locally(
            exchange, setting.streams, setting.holdings, identities=setting.identities
        )
        self.result, self.endings = run.result, run.endings
        self.digest = recorder.close()
        self.sent: dict[tuple[PartyId, int], Envelope] = {}
        self.heard: dict[PartyId, list[Envelope]] = {}
        self.heard_before: dict[tuple[PartyId, int], int] = {}
        self.events: dict[tuple[PartyId, int], PrivacyEvent] = {}
        seen: dict[PartyId, Seen] = {}
        for entry in TranscriptReader(b"".join(parts)):
            if isinstance(entry, Sent):
                envelope = decode_envelope(entry.envelope)
                slot = envelope.sender, envelope.seq
                self.sent[slot] = envelope
                self.heard_before[slot] = len(self.heard.get(envelope.sender, ()))
                message = self.charter.codec.decode(envelope.kind, envelope.body)
                before = seen.setdefault(envelope.sender, Seen())
                self.events[slot] = event_of(self.charter.variant, message, before)
            elif isinstance(entry, Delivered):
                envelope = self.sent[entry.sender, entry.seq]
                self.heard.setdefault(entry.recipient, []).append(envelope)
                message = self.charter.codec.decode(envelope.kind, envelope.body)
                seen.setdefault(entry.recipient, Seen()).add(entry.sender, message)

    @property
    def charter(self) -> Charter:
        return self.setting.charter

    def heard_alike(self, other: _Rehearsal, slot: tuple[PartyId, int]) -> bool:
        """Whether a sender had heard the same in both when it sent this in one of them."""
        befores = [r.heard_before[slot] for r in (self, other) if slot in r.heard_before]
        heard, heard_other = (r.heard.get(slot[0], [])[: befores[0]] for r in (self, other))
        return heard == heard_other and len(set(befores)) == 1

    def machine(self, member: PartyId) -> Machine:
        setting = self.setting
        return Machine(
            setting.charter,
            member,
            setting.streams.stream(member, ROLE_STREAM),
            records=setting.holdings.get(member),
            identity=setting.identities[member],
        )


def _rehearsed(setting: Setting) -> _Rehearsal:
    try:
        return _Rehearsal(setting)
    except ProtocolError as error:
        raise AssertionError(f"the variant does not run: {error}") from error


def _check_parameters(variant: Variant) -> None:
    _require(bool(variant.name), "the variant has no name")
    survey = msgspec.to_builtins(variant.survey)
    complaint = "the variant does not come back from its parameters as it was"
    try:
        written = msgspec.msgpack.decode(msgspec.msgpack.encode(parameters_of(variant)))
        again = build(type(variant), parameters=written, survey=survey)
    except (ProtocolError, ValueError, TypeError) as error:
        raise AssertionError(f"{complaint}: {error}") from error
    _require(again == variant, complaint)


def _check_executors(
    variant: Variant,
    records: Records,
    rehearsal: _Rehearsal,
    executors: Mapping[str, Executor],
    *,
    seed: int,
    parties: int | None,
) -> None:
    codec = rehearsal.charter.codec
    for name, executor in executors.items():
        execution = executor(variant, records, seed=seed, parties=parties)
        _require(
            codec.encode(execution.result) == codec.encode(rehearsal.result),
            f"executor {name!r} gives another result than the local one",
        )
        _require(
            execution.digest == rehearsal.digest,
            f"executor {name!r} gives another canonical digest than the local one",
        )


def _check_codec(rehearsal: _Rehearsal) -> None:
    codec = rehearsal.charter.codec
    stream = Stream(bytes(32))
    examples = {envelope.kind: envelope.body for envelope in rehearsal.sent.values()}
    for kind, body in examples.items():
        message = codec.decode(kind, body)
        _require(codec.encode(message) == body, f"{kind!r} does not keep its bytes")
        for mutilated in _mutilated(body, stream):
            try:
                decoded = codec.decode(kind, mutilated)
            except RemoteProtocolError:
                continue
            _require(
                codec.encode(decoded) == mutilated,
                f"{kind!r} accepts bytes that are not the encoding of what they say",
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


def _check_kinds(rehearsal: _Rehearsal, rare: Collection[type[Message]]) -> None:
    accountant = PureAccountant()
    for (sender, seq), event in rehearsal.events.items():
        try:
            accountant.judge(event)
        except ProtocolError as error:
            raise AssertionError(f"{sender} #{seq}: {error}") from error
    occurred = {envelope.kind for envelope in rehearsal.sent.values()}
    excused = {kind.kind() for kind in (*rare, *KERNEL_KINDS)}
    for kind in rehearsal.charter.codec.names:
        _require(
            kind in occurred or kind in excused,
            f"{kind!r} is declared and never sent; name it in rare if that takes a fault",
        )


def _check_replay(rehearsal: _Rehearsal) -> None:
    for member, _ in rehearsal.charter.roster.members:
        machine = rehearsal.machine(member)
        machine.start(0.0)
        said = machine.take()
        for envelope in rehearsal.heard.get(member, ()):
            machine.receive(envelope, 0.0)
            said += machine.take()
        if not machine.finished:
            machine.abandon("the rehearsal is over")
        for envelope in said:
            recorded = rehearsal.sent.get((member, envelope.seq))
            _require(
                recorded == envelope,
                f"{member} #{envelope.seq} ({envelope.kind!r}) differs when it is said again: a "
                "role may depend on its records, its stream and what it hears, and on nothing else",
            )


def _check_interference(
    variant: Variant, records: Records, rehearsal: _Rehearsal, *, parties: int | None
) -> None:
    survey = records.survey
    for row in sorted({*range(min(ROWS, len(records))), len(records) - 1}):
        for column, name in enumerate(survey.names):
            codes = records.codes.copy()
            codes[row, column] = (int(codes[row, column]) + 1) % survey.sizes[column]
            changed = Records.from_codes(survey, codes)
            setting = setting_of(variant, changed, seed=rehearsal.setting.seed, parties=parties)
            _compare(rehearsal, _rehearsed(setting), name)


def _compare(before: _Rehearsal, after: _Rehearsal, attribute: str) -> None:
    accountant = PureAccountant()
    for slot in sorted(before.sent.keys() | after.sent.keys()):
        sender, seq = slot
        envelope, other = before.sent.get(slot), after.sent.get(slot)
        either = envelope or other
        where = f"{sender} #{seq} ({either.kind!r})" if either else ""
        if envelope == other or not before.heard_alike(after, slot):
            continue
        same_records = before.setting.holdings.get(sender) == after.setting.holdings.get(sender)
        _require(not same_records, f"{where} changes with somebody else's record")
        if envelope is None or other is None:
            raise AssertionError(f"{where} is sent or not depending on a record")
        loss = accountant.judge(before.events[slot])
        _require(
            loss.attributes.get(attribute, 0.0) > 0,
            f"{where} changes with its sender's answer to {attribute!r}, "
            "and its event says that it tells nothing about that",
        )
        _require(
            len(other.body) == len(envelope.body),
            f"{where} changes its length with its sender's record",
        )


def _require(condition: bool, complaint: str) -> None:
    if not condition:
        raise AssertionError(complaint)
