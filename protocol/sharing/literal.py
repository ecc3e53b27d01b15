"""The literal profile: the secure sum as the paper prints it, among all parties.

Every party splits zero into uniform shares modulo n + 1, one for each party, for all cells at once.
It deals them on private channels, adds its own values to the shares that it got, and broadcasts the
sum modulo n + 1. Everybody adds the broadcasts up. No party may be missing, as the sum without one
broadcast is noise (Domingo-Ferrer and Soria-Comas, Multi-Dimensional Randomized Response, section
4.2, with n the number of respondents).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from protocol.crypto.merkle import HASH_BYTES
from protocol.errors import ProtocolError, RemoteProtocolError
from protocol.messages import AGGREGATOR, PartyId
from protocol.session.roles import Me
from protocol.sharing.dealing import deal, deliver, receive
from protocol.sharing.masks import sum_modulo, zero_shares
from protocol.sharing.meeting import join, meet
from protocol.sharing.messages import Deal, Join, Partial, Partials
from protocol.sharing.sparse import Sum, Summed
from protocol.wire.arrays import smallest_dtype


def _signed(context: bytes, values: NDArray[np.unsignedinteger]) -> bytes:
    return context + b"partial" + values.tobytes()


def _partials_digest(context: bytes, partials: Partials) -> bytes:
    return hashlib.sha256(context + b"partials" + partials.values.tobytes()).digest()


async def contribute(
    me: Me,
    values: NDArray[np.unsignedinteger],
    *,
    respondents: int,
    most: int,
    coins: int = 0,
) -> Summed:
    """A party's side.

    Args:
        values: (cells,), this party's own counts.
        respondents: the number of respondents that it speaks for.
        most: the most respondents that there can be.
        coins: how many coins all parties add to a cell.

    Raises:
        RemoteProtocolError: a share does not open or was not committed to, a party is missing, or
            this party's broadcast was changed; the error names the party.
    """
    parties = len(me.roster) - 1
    hood = await join(me, respondents=respondents, neighbours=parties - 1)
    if not hood.there.all():
        raise RemoteProtocolError(
            "a party has not joined: the literal profile needs all of them", field="Graph"
        )
    stream, context = hood.stream, hood.context
    modulus = hood.respondents + coins + 1
    # A sum by a larger modulus might not fit its message, and whether it does follows from counts.
    if hood.respondents > most:
        raise RemoteProtocolError(
            f"{hood.respondents} respondents, at most {most} possible", field="Graph.respondents"
        )
    dtype = smallest_dtype(most + coins + 1)
    held = values.astype(dtype)
    shares = zero_shares(len(held), parties=parties, modulus=modulus, stream=stream)
    kept, dealt = shares[-1], shares[:-1].astype(dtype)
    # The shares hide the values; there are no masks.
    none = np.zeros((parties - 1, 0), np.uint8)
    await deal(
        me,
        hood,
        dealt.view(np.uint8).reshape(parties - 1, 1, -1),
        whole=bytes(HASH_BYTES),
        seeds=none,
        digests=none,
    )
    received = await receive(me, hood, parts=1)
    if not received.good.all():
        bad = [hood.names[row] for row in np.flatnonzero(~received.good).tolist()]
        raise RemoteProtocolError(f"invalid shares from {', '.join(bad[:5])}", field="Dealt.boxes")
    given = received.shares.reshape(parties - 1, -1).view(dtype)
    if (given >= modulus).any():
        raise RemoteProtocolError("share out of range", field="Dealt.boxes")
    partial = sum_modulo(np.concatenate([given, [kept.astype(dtype), held]]), modulus).astype(dtype)
    await me.send(AGGREGATOR, Partial(partial, me.sign(_signed(context, partial))))
    partials = await me.receive(Partials, AGGREGATOR)
    if not np.array_equal(partials.values[hood.place], partial):
        raise RemoteProtocolError("this party's broadcast was altered", field="Partials.values")
    if (partials.values >= modulus).any():
        raise RemoteProtocolError(
            f"broadcast out of range: expected values below {modulus}", field="Partials.values"
        )
    totals = sum_modulo(partials.values, modulus).astype(np.int64)
    return Summed(totals, hood.respondents, hood, _partials_digest(context, partials))


async def collect(
    me: Me,
    joins: Mapping[PartyId, Join],
    *,
    within: float | None,
    coins: int = 0,
) -> Sum:
    """The aggregator's side, from the joins on: it carries everything and learns the total.

    Args:
        coins: how many coins all parties add to a cell.

    Raises:
        QuorumError: a party is missing; the error names it.
        ProtocolError: a broadcast is out of range or not signed; the error names its party.
    """
    parties = me.roster.parties
    meeting = await meet(me, joins, neighbours=len(parties) - 1)
    context = meeting.context
    deals = await me.gather(Deal, parties, within=within, at_least=len(parties))
    await deliver(me, meeting, deals)
    said = await me.gather(Partial, parties, within=within, at_least=len(parties))
    respondents = sum(join_.respondents for join_ in joins.values())
    modulus = respondents + coins + 1
    for name, partial in said.items():
        if not me.roster.verify(name, partial.signature, _signed(context, partial.values)):
            raise ProtocolError(f"the broadcast of {name} is not signed by it")
        if (partial.values >= modulus).any():
            raise ProtocolError(
                f"the broadcast of {name} is out of range: expected values below {modulus}"
            )
    values = np.stack([partial.values for partial in said.values()])
    await me.broadcast(parties, Partials(values))
    totals = sum_modulo(values, modulus).astype(np.int64)
    return Sum(totals, parties, respondents, (), meeting.hoods)
