"""How a session went, and how each of its members ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from protocol.errors import LocalProtocolError, QuorumError
from protocol.messages import AGGREGATOR, DONE, Message, PartyId
from protocol.session.machine import Machine


class Run(NamedTuple):
    """How a session went.

    Args:
        result: what the aggregator published.
        endings: of each party, ``DONE`` or what became of it.
    """

    result: Message
    endings: Mapping[PartyId, str]


def ending_of(machine: Machine) -> str:
    """How a finished machine ended."""
    return DONE if machine.failure is None else str(machine.failure)


def run_of(aggregator: Machine, endings: Mapping[PartyId, str]) -> Run:
    """A finished session.

    Raises:
        ProtocolError: as ``outcome_of``; for want of a quorum it has a note that says why.
    """
    failure = aggregator.failure
    if isinstance(failure, QuorumError):
        reasons = ((n, endings.get(PartyId(n), DONE)) for n in failure.missing)
        why = next((f"{name}: {ending}" for name, ending in reasons if ending != DONE), None)
        if why is not None:
            failure.add_note(why)
    return Run(outcome_of(aggregator), endings)


def outcome_of(aggregator: Machine) -> Message:
    """What a finished aggregator published.

    Raises:
        ProtocolError: its failure, or that it published nothing.
    """
    if aggregator.failure is not None:
        raise aggregator.failure
    if aggregator.result is None:
        raise LocalProtocolError("the aggregator published nothing", party=AGGREGATOR)
    return aggregator.result
