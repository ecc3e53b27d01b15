"""Replays a role from a record: the same envelopes must lead to the same words.

It needs no clock: the closings on record say who was counted, and a sender's envelopes come in the
order of their numbers.
"""

from __future__ import annotations

import builtins
from collections import deque
from collections.abc import Iterable, Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.charter import Charter
from protocol.codec import encode_envelope
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.machine import Machine
from protocol.messages import AGGREGATOR, NO_ROUND, Closed, Envelope, Message, PartyId
from protocol.randomness import Stream
from protocol.roles import Gather
from protocol.roster import Identity


class WithheldError(LocalProtocolError):
    """A replayed role wants randomness that the record does not hold."""


class WithheldStream(Stream):
    """Stands for a stream whose key is not known: whoever draws from it fails."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(bytes(32))

    def derive(self, purpose: str) -> Stream:
        return self

    def bytes(self, n: int) -> builtins.bytes:
        raise WithheldError("the record does not hold this role's randomness")

    def words(self, n: int) -> NDArray[np.uint64]:
        raise WithheldError("the record does not hold this role's randomness")


class WithheldIdentity(Identity):
    """Stands for an identity key that is not known: whoever uses it fails."""

    __slots__ = ()

    def __init__(self, name: PartyId) -> None:
        super().__init__(name, bytes(32))

    def sign(self, content: builtins.bytes) -> builtins.bytes:
        raise WithheldError("the record does not hold this role's identity key")

    def agree(self, key: builtins.bytes) -> builtins.bytes:
        raise WithheldError("the record does not hold this role's identity key")


class Replay(msgspec.Struct, frozen=True):
    """What a replay found.

    Args:
        follows: whether what the role said follows from what it was told; None if that cannot be
            told, because it depends on randomness that is not on record.
        result: what the replayed role published.
        differences: where it differs, in words.
    """

    follows: bool | None
    result: Message | None
    differences: tuple[str, ...]


def replay_aggregator(
    charter: Charter,
    *,
    heard: Mapping[PartyId, Iterable[Envelope]],
    said: Iterable[Envelope],
    stream: Stream | None = None,
    identity: Identity | None = None,
) -> Replay:
    """Run the aggregator's role again on what was delivered to it.

    Args:
        heard: by sender, the envelopes delivered to the aggregator, in order of ``seq``.
        said: the aggregator's own envelopes on record, in order of ``seq``.
        stream, identity: its randomness and its key, if the seed is known.
    """
    machine = Machine(
        charter,
        AGGREGATOR,
        stream or WithheldStream(),
        identity=identity or WithheldIdentity(AGGREGATOR),
    )
    inbox = {sender: deque(envelopes) for sender, envelopes in heard.items()}
    expected = deque(said)
    closings = deque(e for e in expected if e.kind == Closed.kind())
    differences: list[str] = []
    machine.start(0.0)
    while not differences:
        _compare(machine.take(), expected, differences)
        if machine.finished or differences:
            break
        waiting = machine.awaited
        if waiting is None:
            break
        try:
            counted = _counted(charter, waiting, closings, inbox)
        except (RemoteProtocolError, ValueError) as error:
            differences.append(f"closing of {waiting.kind.kind()!r}: {error}")
            break
        for envelope in counted:
            machine.receive(envelope, 0.0)
        if machine.awaited is waiting:
            machine.close_gather(0.0)
    if not differences and isinstance(_cause(machine.failure), WithheldError):
        return Replay(None, None, ())
    if machine.kept:
        kept = machine.kept[0]
        differences.append(f"{kept.sender} #{kept.seq}: {kept.reason}")
    if expected and not differences:
        differences.append(f"{len(expected)} envelopes of the aggregator do not follow")
    if not machine.finished:
        machine.abandon("the record has ended")
    return Replay(not differences, machine.result, tuple(differences))


def _compare(spoken: Iterable[Envelope], expected: deque[Envelope], differences: list[str]) -> None:
    for envelope in spoken:
        if not expected:
            differences.append(f"#{envelope.seq}: {envelope.kind!r} follows but is not on record")
            return
        recorded = expected.popleft()
        if encode_envelope(recorded) != encode_envelope(envelope):
            what = "another" if recorded.kind == envelope.kind else f"{recorded.kind!r} instead of"
            differences.append(
                f"#{recorded.seq}: the record has {what} {envelope.kind!r}, "
                "which does not follow from what was delivered"
            )
            return


def _counted(
    charter: Charter,
    waiting: Gather,
    closings: deque[Envelope],
    inbox: Mapping[PartyId, deque[Envelope]],
) -> list[Envelope]:
    """The envelopes that the open gather counted, by the record.

    Raises:
        RemoteProtocolError, ValueError: the record has no such closing, or no such envelopes.
    """
    senders: Iterable[PartyId] = waiting.senders
    if waiting.noted:
        if not closings:
            raise RemoteProtocolError("not on record")
        envelope = closings.popleft()
        closed = charter.codec.decode(envelope.kind, envelope.body)
        round_ = NO_ROUND if waiting.round is None else waiting.round
        if not isinstance(closed, Closed) or (closed.of, closed.round) != (
            waiting.kind.kind(),
            round_,
        ):
            raise RemoteProtocolError("the record closes something else here")
        senders = charter.roster.members_in(closed.counted)
    found = []
    for sender in senders:
        envelope_ = _find(charter, waiting, inbox.get(sender, deque()))
        if envelope_ is not None:
            found.append(envelope_)
        elif waiting.noted:
            raise RemoteProtocolError(f"{sender} is counted, but no such message was delivered")
    return found


def _find(charter: Charter, waiting: Gather, envelopes: deque[Envelope]) -> Envelope | None:
    """The first envelope of the kind and round awaited; it is taken out, others stay."""
    for i, envelope in enumerate(envelopes):
        if envelope.kind != waiting.kind.kind():
            continue
        try:
            message = charter.codec.decode(envelope.kind, envelope.body)
        except RemoteProtocolError:
            continue  # The machine kept it away from the role.
        if getattr(message, "round", None) == waiting.round:
            del envelopes[i]
            return envelope
    return None


def _cause(error: BaseException | None) -> BaseException | None:
    while error is not None and error.__cause__ is not None:
        error = error.__cause__
    return error
