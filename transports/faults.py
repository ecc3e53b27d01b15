"""Seeded faults: rules that decide the fate of every envelope.

A decision depends only on the seed, the rule, and the envelope's sender, recipient and number, so
it is the same on every transport. The first matching rule decides; without rules there are no
faults.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from protocol.messages import AGGREGATOR, Envelope, PartyId
from protocol.session.fates import PASS, Fate, FateRule, Verdict


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One rule.

    Args:
        verdict: the fate of the envelope; ``PASS`` with a delay lets it through late.
        share: probability, from 0 to 1.
        delay: seconds of delay of envelopes that pass.
        sender, recipient, kind: which envelopes it is about; None is any.
        per_sender: decide once for a party instead of for every envelope, so that ``share`` is a
            share of the parties. The aggregator is spared: there would be nobody left to ask.

    Raises:
        ValueError: a share outside 0 to 1, or a negative delay.
    """

    verdict: Verdict
    share: float = 1.0
    delay: float = 0.0
    sender: PartyId | None = None
    recipient: PartyId | None = None
    kind: str | None = None
    per_sender: bool = False

    def __post_init__(self) -> None:
        if not 0.0 <= self.share <= 1.0:
            raise ValueError(f"share {self.share}: expected 0 to 1")
        if self.delay < 0.0:
            raise ValueError(f"delay {self.delay}: expected at least 0 seconds")

    def concerns(self, envelope: Envelope) -> bool:
        """Check whether the rule is about an envelope."""
        return (
            self.sender in (None, envelope.sender)
            and not (self.per_sender and envelope.sender == AGGREGATOR)
            and self.recipient in (None, envelope.recipient)
            and self.kind in (None, envelope.kind)
        )


def crash(share: float, *, kind: str | None = None) -> Fault:
    """A share of the parties ends before it has sent its first envelope (of ``kind``)."""
    return Fault(verdict=Verdict.CRASH, share=share, kind=kind, per_sender=True)


def cut(share: float, *, kind: str | None = None) -> Fault:
    """A share of the parties loses its link, and the envelope that was under way with it."""
    return Fault(verdict=Verdict.CUT, share=share, kind=kind, per_sender=True)


def drop(share: float, *, kind: str | None = None) -> Fault:
    """A share of the envelopes is lost."""
    return Fault(verdict=Verdict.DROP, share=share, kind=kind)


def delay(seconds: float, *, share: float = 1.0, kind: str | None = None) -> Fault:
    """A share of the envelopes is late."""
    return Fault(verdict=Verdict.PASS, share=share, delay=seconds, kind=kind)


def duplicate(share: float, *, kind: str | None = None) -> Fault:
    """A share of the envelopes arrives twice."""
    return Fault(verdict=Verdict.DUPLICATE, share=share, kind=kind)


def faults(rules: Sequence[Fault], *, seed: int) -> FateRule:
    """A fate for every envelope, from rules in order of precedence."""
    key = hashlib.blake2b(b"sottovoce faults\0%d" % seed, digest_size=32).digest()

    def decide(envelope: Envelope) -> Fate:
        for number, rule in enumerate(rules):
            if rule.concerns(envelope) and _draw(key, number, rule, envelope) < rule.share:
                return Fate(rule.verdict, rule.delay)
        return PASS

    return decide


def _draw(key: bytes, number: int, rule: Fault, envelope: Envelope) -> float:
    """A number in [0, 1) that depends only on the envelope and the rule."""
    about: tuple[object, ...] = (number, envelope.sender)
    if not rule.per_sender:
        about += (envelope.recipient, envelope.seq)
    drawn = hashlib.blake2b(repr(about).encode(), key=key, digest_size=8).digest()
    return (int.from_bytes(drawn, "big") >> 11) / 2.0**53
