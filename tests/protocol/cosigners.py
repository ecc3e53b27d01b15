"""Witnesses within a test's own process, which judge as those of the program do; no tests."""

from __future__ import annotations

from collections.abc import Sequence

from protocol import PartyId, Witnesses
from protocol.session.charter import Charter
from protocol.session.roles import Gather
from protocol.session.roster import Identity
from protocol.transcript.certifying import Certificate, certified_log, to_cosign
from protocol.transcript.checkpoints import SignedCheckpoint, log_origin
from protocol.transcript.cosignatures import WitnessKey, cosign, with_lines
from protocol.transcript.witnessing import decide


class Cosigner:
    """A witness of one survey.

    Args:
        number: sets its key and name apart.
        honest: whether it remembers what it has cosigned.
    """

    def __init__(self, number: int = 1, *, honest: bool = True) -> None:
        name = f"witness.example/{number}"
        self.identity = Identity(PartyId(name), bytes([200 + number]) * 32)
        self.key = WitnessKey(name, self.identity.public)
        self.honest = honest
        self.last: dict[str, SignedCheckpoint | None] = {}
        self.asked = 0

    def line(self, checkpoint: SignedCheckpoint) -> str | None:
        """Its cosignature, if it gives one."""
        self.asked += 1
        origin = log_origin(checkpoint.session, checkpoint.key)
        known = self.last.setdefault(origin, None) if self.honest else None
        old = 0 if known is None else known.size
        request = f"old {old}\n\n{checkpoint.note}".encode()
        found = decide(request, {origin: known}).checkpoint
        if found is None:
            return None
        self.last[origin] = found
        text = checkpoint.signed
        return cosign(self.identity, name=self.key.name, text=text, time=1_700_000_000)


def named(*cosigners: Cosigner, needed: int | None = None) -> Witnesses:
    """These, as terms of a survey."""
    return Witnesses(keys=tuple(each.key.text for each in cosigners), needed=needed)


def certificate(
    signer: Identity,
    session: bytes,
    statement: bytes,
    cosigners: Sequence[Cosigner],
    number: int = 0,
) -> Certificate:
    """What an aggregator gets from those that cosign."""
    checkpoint = to_cosign(signer, session=session, number=number, statement=statement)
    assert checkpoint.session == certified_log(session, number)
    lines = [line for each in cosigners if (line := each.line(checkpoint)) is not None]
    return Certificate(number, with_lines(checkpoint.note, lines))


class Asking:
    """An aggregator that asks some witnesses for what its role needs."""

    def __init__(self, charter: Charter, signer: Identity, *cosigners: Cosigner) -> None:
        self.charter, self.signer, self.cosigners = charter, signer, cosigners

    def __call__(self, asked: Gather) -> Certificate:
        assert asked.round is not None
        return certificate(
            self.signer, self.charter.session, asked.about, self.cosigners, asked.round
        )
