"""Faults that there were, planted again where they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import pytest

from protocol import Me, Message, PrivacyEvent, Records, RemoteProtocolError
from protocol.audit.hearing import Hearing
from protocol.messages import Envelope
from protocol.session.charter import Charter
from protocol.session.inbox import Inbox
from protocol.session.machine import Machine
from protocol.session.variant import heeded
from protocol.sharing import sums
from protocol.sharing.messages import Graph
from protocol.variants import RRBA, PairRR, SecureSumVariant
from protocol.variants.rrba.rrba import Answers, Question

ROOM = 1
"""The messages for which a mailbox has room; there were 64, of all kinds together."""


@contextmanager
def own_counts() -> Iterator[None]:
    """A party refuses totals that hold less than it has put in."""

    def compare(me: Me, totals: Any, own: Any) -> None:
        if (totals < own).any():
            raise RemoteProtocolError("smaller than this party's own counts", field="totals")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "_compare", compare)
        yield


@contextmanager
def early_mailbox() -> Iterator[None]:
    """A party drops what its mailbox has no room for, and is charged by what was delivered."""
    accept, receive, begin = Inbox.accept, Machine.receive, Hearing.__init__

    def dropping(inbox: Inbox, envelope: Envelope, message: Message) -> None:
        waiting = inbox.waiting
        awaited = waiting is not None and envelope.sender in waiting.pending
        if sum(map(len, inbox._early.values())) >= ROOM and not (
            awaited and waiting is not None and waiting.effect.kind is type(message)
        ):
            inbox.keep(envelope, "no room")
        else:
            accept(inbox, envelope, message)

    def noting(machine: Machine, envelope: Envelope, now: float) -> None:
        codec = machine.charter.codec
        try:
            message = codec.decode(envelope.kind, envelope.body)
        except RemoteProtocolError:
            message = None
        variant = machine.charter.variant
        if message is not None and not machine.finished and heeded(variant, type(message)):
            machine._seen.add(envelope.sender, message)
        receive(machine, envelope, now)

    def unsigned(hearing: Hearing, charter: Charter, heads: object, *held: Any) -> None:
        begin(hearing, charter, {}, *held)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Hearing, "__init__", unsigned)
        patch.setattr(Inbox, "accept", dropping)
        patch.setattr(Machine, "receive", noting)
        yield


class FalseTable(RRBA, frozen=True, kw_only=True):
    """Charges for answers to the first block as if its tables were uniform, as they should be."""

    name = "false-table"

    def _event(self, answers: Answers, question: Question) -> PrivacyEvent:
        return super()._event(answers, self._charged(question))

    def _charged(self, question: Question) -> Question:
        if question.block:
            return question
        groups = question.groups
        uniform = [w for g in groups.tolist() for w in _uniform(self.plan.layout.groups[g])]
        return Question(0, question.over, groups, np.array(uniform, np.uint64))


def _uniform(size: int) -> list[int]:
    each = 2**64 // size
    return [each] * (size - 1) + [2**64 - each * (size - 1)]


class _Forgetful:
    """A role's own side whose randomness in a graph is that of any other graph."""

    def __init__(self, me: Me) -> None:
        self._me = me

    def __getattr__(self, name: str) -> Any:
        return getattr(self._me, name)

    def stream_for(self, question: Message, purpose: str = "answer") -> Any:
        if isinstance(question, Graph):
            return self._me.stream.derive("graph")
        return self._me.stream_for(question, purpose)


class SameMasks(SecureSumVariant, frozen=True):
    """Hides its counts under the same masks in whatever graph it is put."""

    name = "same-masks"

    async def party(self, me: Me, records: Records) -> None:
        await super().party(cast(Me, _Forgetful(me)), records)


class SameMasksOfPairs(PairRR, frozen=True, kw_only=True):
    """The same of randomized pairs."""

    name = "same-masks-of-pairs"

    async def party(self, me: Me, records: Records) -> None:
        await super().party(cast(Me, _Forgetful(me)), records)
