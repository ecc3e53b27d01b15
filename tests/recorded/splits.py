"""Receipts of parties that an aggregator has told different survivors of one sum; no tests."""

from __future__ import annotations

import functools
from typing import NamedTuple

import pytest

from protocol import AGGREGATOR, PartyId, SecureSum
from protocol.messages import ROLE_STREAM, Envelope
from protocol.session.machine import Machine
from protocol.sharing import sparse
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.header import make_header
from protocol.transcript.receipts import Confirming, receipt_for
from protocol.transcript.recorder import Recorder
from protocol.wire.codec import encode_envelope
from tests.protocol.sessions import STREAMS
from tests.protocol.sharing.test_conspiracies import HERE, Conspiracy, colluders_of


class _Kept(Machine):
    """A machine whose words are kept."""

    def take(self) -> list[Envelope]:
        said = super().take()
        self.words = [*getattr(self, "words", []), *said]
        return said


class _Split(Conspiracy):
    def _machine(self, name: PartyId) -> Machine:
        return _Kept(
            self.charter,
            name,
            STREAMS.stream(name, ROLE_STREAM),
            records=self.holdings.get(name),
            identity=self.identities[name],
        )

    def receipt(self, name: PartyId) -> tuple[Confirming, SignedCheckpoint]:
        """What a party makes of what an aggregator acknowledges that has a log for each."""
        machine = self.machines[name, HERE]
        assert isinstance(machine, _Kept)
        assert machine.head is not None
        recorder = Recorder(
            lambda part: None,
            make_header(self.charter),
            signer=self.identities[AGGREGATOR],
            secret=bytes(32),
            acknowledging=True,
            judge_heads=False,
        )
        for envelope in machine.words:
            recorder.sent(envelope, now=0.0)
        made, checkpoint = receipt_for(
            self.charter,
            machine.head,
            recorder.acknowledge()[name],
            said=[encode_envelope(each) for each in machine.words[:-1]],
            reports=machine.reports,
            signed=machine.signed,
        )
        assert isinstance(made, Confirming)
        return made, checkpoint


class Split(NamedTuple):
    """Receipts of both halves, each with its checkpoint."""

    here: list[tuple[Confirming, SignedCheckpoint]]
    gone: list[tuple[Confirming, SignedCheckpoint]]


@functools.cache
def split() -> Split:
    """Six of twelve parties conspire, one more than the sum withstands."""
    conspiracy = _Split(12, 6, SecureSum(dropped=0.25, corrupt=0))
    beside = conspiracy.degree.threshold - 6
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse, "agree", colluders_of(conspiracy.corrupt))
        assert conspiracy.read(beside) == conspiracy.truth
    halves = (conspiracy.honest[: 1 + beside], conspiracy.honest[1 + beside :])
    return Split(*([conspiracy.receipt(name) for name in half] for half in halves))
