"""Findings of an active attack on a party, and differences that are rightly charged."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from protocol.attack.active.script import Script
from protocol.attack.probes import Probe

Rule: TypeAlias = Literal["outward", "charge", "fresh"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A leak of a party that is not charged.

    Args:
        rule: ``outward``, ``charge`` or ``fresh``.
        attributes: in which the records differ; empty if the record plays no part.
        what: description in one line.
        script: shows the leak.
        probe: the counts, for ``charge`` alone.
    """

    rule: Rule
    attributes: tuple[str, ...]
    what: str
    script: Script
    probe: Probe | None = None

    @property
    def about(self) -> tuple[Rule, tuple[str, ...]]:
        """Key that is equal for findings of the same leak."""
        return self.rule, self.attributes


class Charged(msgspec.Struct, frozen=True, kw_only=True):
    """A difference that is rightly charged.

    Args:
        kind: of the message with different bytes.
        why: its event in words.
        epsilon: the largest charge for an attribute, in nats.
    """

    kind: str
    why: str
    epsilon: float


class Charges:
    """Differences that are rightly charged, each with its largest charge."""

    def __init__(self) -> None:
        self._most: dict[tuple[str, str], Charged] = {}

    def add(self, one: Charged) -> None:
        """Add a difference."""
        key = one.kind, one.why
        before = self._most.get(key)
        if before is None or one.epsilon > before.epsilon:
            self._most[key] = one

    def all(self) -> tuple[Charged, ...]:
        """All differences, in the order of their first additions."""
        return tuple(self._most.values())
