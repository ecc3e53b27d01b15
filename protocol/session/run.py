"""Course of a session, and the ending of each of its members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from protocol.errors import LocalProtocolError, ProtocolError, QuorumError
from protocol.messages import AGGREGATOR, DONE, Message, PartyId


class Run(NamedTuple):
    """Course of a session.

    Args:
        result: the published result.
        endings: of each member but the aggregator, ``DONE`` or the reason why it is not.
    """

    result: Message
    endings: Mapping[PartyId, str]


class Ended(Protocol):
    """Members of a machine that has finished."""

    @property
    def result(self) -> Message | None:
        """Result that its role returned."""

    @property
    def failure(self) -> ProtocolError | None:
        """Reason why its role failed; None if it did not."""


def machine_ending(machine: Ended) -> str:
    """Ending of a finished machine."""
    return DONE if machine.failure is None else str(machine.failure)


def is_mistake(party: PartyId, ending: str) -> bool:
    """Check whether a party ended by a mistake in its role, as ``LocalProtocolError`` words it."""
    return ending.startswith(f"party {party!r}, role ")


def finished_run(aggregator: Ended, endings: Mapping[PartyId, str]) -> Run:
    """A finished session.

    Args:
        aggregator: the aggregator's machine.
        endings: of each other member, in roster order.

    Raises:
        LocalProtocolError: the aggregator failed after a mistake in the role of parties. It is the
            error of the first such party, with a note of the aggregator's failure.
        ProtocolError: as ``published_result``; without a quorum it has a note with the reason.
    """
    failure = aggregator.failure
    mistakes = [ending for name, ending in endings.items() if is_mistake(name, ending)]
    if failure is not None and mistakes:
        error = LocalProtocolError(mistakes[0])
        parties = f"{len(mistakes)} of {len(endings)} parties failed"
        error.add_note(f"{parties}, and then the aggregator: {failure}")
        raise error from failure
    if isinstance(failure, QuorumError):
        reasons = ((n, endings.get(PartyId(n), DONE)) for n in failure.missing)
        why = next((f"{name}: {ending}" for name, ending in reasons if ending != DONE), None)
        if why is not None:
            failure.add_note(why)
    return Run(published_result(aggregator), endings)


def published_result(aggregator: Ended) -> Message:
    """Message that a finished aggregator published.

    Raises:
        ProtocolError: its failure, or that it published nothing.
    """
    if aggregator.failure is not None:
        raise aggregator.failure
    if aggregator.result is None:
        raise LocalProtocolError("the aggregator published nothing", party=AGGREGATOR)
    return aggregator.result
