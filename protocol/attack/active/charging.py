"""Tests of the ledger's charge for a script, by runs with fresh randomness.

The target receives the same in all of them, with one record or with the other. The ledger of each
run is made from what the target received and sent, as in an audit. The lower bounds are those of
``protocol.attack``.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.accounting.accountants import NOTHING, Loss
from protocol.accounting.events import Derived, Merging, Public
from protocol.attack.active.target import Heard
from protocol.attack.active.twins import Conduct, play_conduct
from protocol.attack.active.worlds import Neighbour, Study
from protocol.attack.columns import View, element_columns, make_view, plain_facts, view_matrices
from protocol.attack.observer import Observation
from protocol.attack.probes import Probe, strongest_probe
from protocol.attack.trials import Pair, Trials
from protocol.audit.ledger import Ledger, LedgerWriter
from protocol.audit.walk import Step
from protocol.crypto.randomness import WORDS, Stream, secret_of
from protocol.errors import RemoteProtocolError
from protocol.messages import Envelope, Head, Message
from protocol.session.charter import Charter
from protocol.transcript.entries import Delivered, Sent

PILOTS = 48
"""Number of runs with each record in a first pilot."""

MORE_PILOTS = 300
"""The same in a second pilot."""

_CAUTION = 1.0

TRIALS = 8_000
"""Number of trials of a script that seems to reveal more than is charged."""


class Worth(NamedTuple):
    """Value of a script by a pilot.

    Args:
        neighbour: the place of the neighbouring record that differs most.
        excess: of a rough estimate of epsilon over the charge.
    """

    neighbour: int
    excess: float


def view_of_conduct(study: Study, conduct: Conduct) -> View:
    """The hostile members' view of a conduct."""
    messages: dict[str, Message] = {}
    facts: Counter[str] = Counter()
    seen = hashlib.sha256()
    for place, act in enumerate(conduct.acts):
        for envelope, read, _ in act.words(seen=True):
            if envelope.kind == Head.kind() or read is None:
                continue
            name = f"target's {envelope.kind}"
            facts[f"number of {name}"] += 1
            count = facts[f"number of {name}"]
            name = f"{name} {count}" if count > 1 else name
            facts[f"place of {name}"] = place
            facts[f"length of {name}"] = len(envelope.body)
            seen.update(read)
            with contextlib.suppress(RemoteProtocolError):
                for field, message in study.setting.messages(envelope, study.hostile).items():
                    messages[f"{name}'s {field}" if field else name] = message
        if act.over:
            facts["its end"] = place + 1
            facts["it failed"] = int(act.ended != "done")
            break
    facts["all that is said"] = int.from_bytes(seen.digest()[:7], "big")
    return make_view(Observation(messages, {}, facts))


class Ledgers:
    """Charges of the ledger to the target, by its received and sent messages.

    Conducts with equal events are charged once.
    """

    def __init__(self, study: Study, heard: Sequence[Heard]) -> None:
        self._study = study
        self._heard = heard
        self._known: dict[tuple[object, ...], Loss] = {}

    def charged(self, conduct: Conduct, attribute: str) -> float:
        """Charge of a conduct for an attribute."""
        events = tuple(
            (envelope.kind, event)
            for act in conduct.acts
            for envelope, event in zip(act.said, act.events, strict=True)
        )
        loss = self._known.get(events)
        if loss is None:
            loss = self._known[events] = _loss(self._study, self._heard, conduct)
        return loss.attributes.get(attribute, 0.0)


def _loss(study: Study, heard: Sequence[Heard], conduct: Conduct) -> Loss:
    passed: list[tuple[bool, Envelope]] = []
    for one, act in zip(heard, conduct.acts, strict=False):
        if one.envelope is not None and one.envelope.sender in study.charter.roster:
            passed += [(False, one.envelope), (True, one.envelope)]
        passed += [(False, envelope) for envelope in act.said]
    account = _hostile_ledger(study, passed).everybody.get(study.party)
    return NOTHING if account is None else account.loss


def _hostile_ledger(study: Study, passed: list[tuple[bool, Envelope]]) -> Ledger:
    """The hostile members' ledger of envelopes that were sent, or delivered (True)."""
    charter = study.charter
    entries: list[Step] = []
    for number, (delivered, envelope) in enumerate(passed):
        message, malformed = _decoded(charter, envelope)
        if delivered:
            entry: Sent | Delivered = Delivered(
                at=0,
                sender=envelope.sender,
                recipient=envelope.recipient,
                seq=envelope.seq,
                repeat=False,
            )
        else:
            entry = Sent(at=0, envelope=b"")
        where = number - 1 if delivered else None
        entries.append(Step(number, entry, envelope, message, malformed, where))
    writer = LedgerWriter(charter)
    said = [step.envelope for step in entries if isinstance(step.message, Head)]
    writer.start({envelope.sender: envelope.body for envelope in said if envelope is not None})
    for step in entries:
        writer.add(step)
    return writer.ledger(study.coalition)


def _decoded(charter: Charter, envelope: Envelope) -> tuple[Message | None, str]:
    try:
        return charter.codec.decode(envelope.kind, envelope.body), ""
    except RemoteProtocolError as error:
        return None, str(error)


def pilot(
    study: Study,
    heard: Sequence[Heard],
    pilots: int = PILOTS,
    *,
    only: int | None = None,
) -> Worth:
    """A rough estimate of what a script makes the target reveal beyond the charge.

    Args:
        pilots: number of runs with each record.
        only: the place of the only neighbour to try; all if None.
    """
    drawn = [_stream(study, f"pilot {number} of {pilots}") for number in range(pilots)]
    streams = [study.redrawn(stream) for stream in drawn]
    own = [play_conduct(study.machine(study.record(None), stream), heard) for stream in streams]
    views = [view_of_conduct(study, conduct) for conduct in own]
    best, ledgers = Worth(0, -math.inf), Ledgers(study, heard)
    if not any(map(_speaks, own[:2])):
        return best  # The script depends on the session's stream.
    for place, neighbour in enumerate(study.neighbours):
        if only not in (None, place):
            continue
        record = study.record(neighbour)
        others = [play_conduct(study.machine(record, stream), heard) for stream in streams]
        bound = max(ledgers.charged(one, neighbour.attribute) for one in (*own, *others))
        if math.isinf(bound):
            continue
        both = [*views, *(view_of_conduct(study, conduct) for conduct in others)]
        rough = _rough_epsilon(both, np.arange(2 * pilots) >= pilots)
        best = max(best, Worth(place, rough - bound), key=lambda one: one.excess)
    return best


def _speaks(conduct: Conduct) -> bool:
    """True if a conduct has an event that is charged."""
    events = (event for act in conduct.acts for event in act.events if event is not None)
    return any(not isinstance(event, Public | Derived | Merging) for event in events)


def _rough_epsilon(views: Sequence[View], bits: NDArray[np.bool_]) -> float:
    """Rough estimate of the difference between the views of two inputs: the best single column.

    The estimate is cautious: an error of ``_CAUTION`` standard deviations is taken off.
    """
    loudest = 0.0
    columns = {**plain_facts(views), **element_columns(view_matrices(views), related=())}
    for column in columns.values():
        values, places = np.unique(column, return_inverse=True)
        if not 1 < len(values) <= len(bits) // 4:
            continue
        counts = np.bincount(2 * places + bits, minlength=2 * len(values)).reshape(-1, 2)
        more, less = counts.max(axis=1), counts.min(axis=1)
        low = more - _CAUTION * np.sqrt(more)
        high = less + _CAUTION * np.sqrt(less) + 1.0
        loudest = max(loudest, float(np.log(np.maximum(low, 1e-9) / high).max()))
    return loudest


def tried(
    study: Study,
    heard: Sequence[Heard],
    neighbour: Neighbour,
    *,
    purpose: str,
    level: float,
    trials: int,
) -> Probe:
    """Attempt to prove that a script makes the target reveal more than the ledger charges.

    Args:
        purpose: separates the randomness from that of other scripts.
        level: the probability of a false accusation.
        trials: number of trials.
    """
    first = play_conduct(study.machine(study.record(None)), heard)
    ledgers = Ledgers(study, heard)
    bound = ledgers.charged(first, neighbour.attribute)
    drawn = _stream(study, f"trials {purpose}")
    bits = drawn.bernoulli(WORDS // 2, trials)
    records = study.record(None), study.record(neighbour)
    views = []
    for number, bit in enumerate(bits.tolist()):
        stream = study.redrawn(drawn.derive(f"trial {number}"))
        conduct = play_conduct(study.machine(records[bit], stream), heard)
        bound = max(bound, ledgers.charged(conduct, neighbour.attribute))
        views.append(view_of_conduct(study, conduct))
    matrices = view_matrices(views)
    columns = {**plain_facts(views), **element_columns(matrices, related=list(matrices))}
    codes = records[0].codes[0].astype(np.int64), records[1].codes[0].astype(np.int64)
    pair = Pair(neighbour.words, (neighbour.attribute,), codes)
    sort = Trials("conducts", bits, columns, None, bound, trials)
    return strongest_probe(pair, [sort], level=level, delta=0.0)


def _stream(study: Study, purpose: str) -> Stream:
    return Stream(secret_of(study.seed)).derive(f"active attack, {purpose}")
