"""Findings of an active attack on a party: uncharged ones, and differences rightly charged."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from protocol.attack.active.script import Script
from protocol.attack.probes import Probe

Rule: TypeAlias = Literal["outward", "charge", "fresh"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a party reveals and that is not charged.

    Args:
        rule: ``outward``, ``charge`` or ``fresh``.
        attributes: the attributes in which the records differ; empty if the record has no part in
            it.
        what: the finding, in one line.
        script: a script that shows it.
        probe: the counts; None but for ``charge``.
    """

    rule: Rule
    attributes: tuple[str, ...]
    what: str
    script: Script
    probe: Probe | None = None

    @property
    def about(self) -> tuple[Rule, tuple[str, ...]]:
        """Common part of this and other scripts' findings that show the same."""
        return self.rule, self.attributes


class Charged(msgspec.Struct, frozen=True, kw_only=True):
    """A difference that is rightly charged.

    Args:
        kind: the kind of the message with different bytes.
        why: its event, in words.
        epsilon: the largest charge for an attribute, in nats.
    """

    kind: str
    why: str
    epsilon: float


class Charges:
    """Differences that are rightly charged, each with the most that is charged for it."""

    def __init__(self) -> None:
        self._most: dict[tuple[str, str], Charged] = {}

    def add(self, one: Charged) -> None:
        """Take in one more."""
        key = one.kind, one.why
        before = self._most.get(key)
        if before is None or one.epsilon > before.epsilon:
            self._most[key] = one

    def all(self) -> tuple[Charged, ...]:
        """All of them, in the order in which they came first."""
        return tuple(self._most.values())
