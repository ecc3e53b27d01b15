"""Observations of an attacker in each trial: messages by name, and facts about their delivery.

A trial is a whole run, or one of many respondents in a run.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from protocol.audit.coalition.coalition import Coalition
from protocol.errors import RemoteProtocolError
from protocol.messages import Envelope, Head, Message, PartyId
from protocol.simulation.rehearsal import Rehearsal, Slot

KEYS = 256
"""The most different messages in a view."""

_SPREAD, _KEPT = 1_000_003, (1 << 62) - 1


class Observation(NamedTuple):
    """Observation of one trial.

    Args:
        messages: by a name that is the same in every trial, such as ``target's Report``.
        slots: the envelopes of these messages.
        facts: numbers about messages, such as their lengths and places.
    """

    messages: dict[str, Message]
    slots: dict[str, Slot]
    facts: Counter[str]


def observe(
    rehearsal: Rehearsal, observer: Coalition, labels: Mapping[PartyId, str]
) -> Observation:
    """Observation of a run by an observer.

    Args:
        labels: the members with messages in the view, each with a name.
    """
    (observation,) = observe_trials(rehearsal, observer, [labels])
    return observation


def observe_trials(
    rehearsal: Rehearsal, observer: Coalition, trials: Sequence[Mapping[PartyId, str]]
) -> list[Observation]:
    """Observations of several trials of one run (``observe``).

    Facts of every message are: the number of messages of its name, its length, its number among its
    sender's, its recipients as places in the roster and as steps from the sender, and in a view of
    the whole roster its place among all messages.
    """
    whose = {
        party: (place, label)
        for place, labels in enumerate(trials)
        for party, label in labels.items()
    }
    members = {name: place for place, (name, _) in enumerate(rehearsal.charter.roster.members)}
    ordered = whose.keys() == members.keys()
    observations = [Observation({}, {}, Counter()) for _ in trials]
    before: dict[PartyId, tuple[Envelope, str]] = {}
    for position, envelope in enumerate(rehearsal.seen_by(observer)):
        sender, kind = envelope.sender, envelope.kind
        if sender not in whose or kind == Head.kind():
            continue  # A head hashes its sender's messages and the session.
        place, label = whose[sender]
        messages, slots, facts = observations[place]
        last, name = before.get(sender, (None, ""))
        repeated = last is not None and _broadcast(last, envelope)
        if not repeated:
            name = f"{label}'s {kind}"
            facts[f"number of {name}"] += 1
            count = facts[f"number of {name}"]
            name = f"{name} {count}" if count > 1 else name
        before[sender] = envelope, name
        if name not in messages and len(messages) >= KEYS:
            continue
        to = members.get(envelope.recipient, -1)
        _append(facts, f"recipients of {name}", to)
        if to >= 0:
            _append(facts, f"steps to recipients of {name}", (to - members[sender]) % len(members))
        if repeated:
            continue
        facts[f"length of {name}"] = len(envelope.body)
        facts[f"number of {name} among its sender's"] = envelope.seq
        if ordered:
            facts[f"place of {name}"] = position
        with contextlib.suppress(RemoteProtocolError):
            for field, message in rehearsal.messages(envelope, observer.insiders).items():
                part = f"{name}'s {field}" if field else name
                messages[part] = message
                slots[part] = sender, envelope.seq
    for observation in observations:
        observation.facts["failed"] = int(rehearsal.failure is not None)
    return observations


def _broadcast(last: Envelope, envelope: Envelope) -> bool:
    """Check whether an envelope repeats the one just before, to another member."""
    return (
        last.kind == envelope.kind
        and last.seq + 1 == envelope.seq
        and last.recipient != envelope.recipient
        and last.body == envelope.body
    )


def _append(facts: Counter[str], name: str, number: int) -> None:
    """Add to a list of numbers that is kept as one number."""
    facts[name] = (facts[name] * _SPREAD + number) & _KEPT if name in facts else number
