"""One exchange of sealed boxes: every party deals each of its neighbours one, by the aggregator.

The aggregator carries the boxes and sees ciphertext; it gets them of all neighbours in one message
and hands each party its own in one, so a party sends and receives two messages and not 2k.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.errors import RemoteProtocolError
from protocol.messages import AGGREGATOR, PartyId
from protocol.roles import Me
from protocol.sharing.commitments import commit, opens
from protocol.sharing.graph import mirror
from protocol.sharing.meeting import Hood, Meeting, Neighbour
from protocol.sharing.messages import Deal, Dealt
from protocol.sharing.sealing import SALT_BYTES, SEAL_BYTES

Bytes = NDArray[np.uint8]


def commitment_context(session: bytes, dealer: str, part: int) -> bytes:
    """What a commitment is about, so that one dealer's cannot stand for another's."""
    return session + part.to_bytes(1, "big") + dealer.encode() + b"\0"


class Received(NamedTuple):
    """What a party was dealt.

    Args:
        dealt: which neighbours have dealt.
        good: whose box opened and holds what was committed to; the others are to blame.
        shares: (k, parts, bytes), zeros where there is none.
        salts: (k, parts, 16): with them the commitments open.
    """

    dealt: NDArray[np.bool_]
    good: NDArray[np.bool_]
    shares: Bytes
    salts: Bytes


def commitment_salts(neighbour: Neighbour, parts: int, *, own: bool) -> bytes:
    """The salts of what one of two neighbours deals the other; both know them.

    Args:
        own: of what this party deals; else of what it is dealt.
    """
    edge = neighbour.edge
    derive = edge.outgoing if own else edge.incoming
    # One derivation gives the salts of two parts.
    return b"".join(derive(f"commitments {i}") for i in range((parts + 1) // 2))[: 16 * parts]


async def deal(
    me: Me, hood: Hood, shares: Bytes, *, own_key: bytes, salt: bytes, whole: bytes
) -> None:
    """Seal every neighbour's shares, commit to them, and hand all to the aggregator.

    Args:
        shares: (k, parts, bytes), those of row c for neighbour c.
        own_key: this party's mask key; the box vouches for it.
        salt: of this message alone, 16 bytes.
        whole: commits to what the shares are shares of, 32 bytes.
    """
    k, parts, length = shares.shape
    boxes = np.zeros((k, parts * length + SEAL_BYTES), np.uint8)
    salts = np.zeros((k, parts, SALT_BYTES), np.uint8)
    for row, neighbour in enumerate(hood.neighbours):
        if neighbour is None:
            continue
        bound = hood.root + own_key + neighbour.mask_key
        box = neighbour.edge.seal("Deal", shares[row].tobytes(), salt=salt, bound=bound)
        boxes[row] = np.frombuffer(box, np.uint8)
        known = commitment_salts(neighbour, parts, own=True)
        salts[row] = np.frombuffer(known, np.uint8).reshape(parts, SALT_BYTES)
    commitments = np.stack(
        [
            commit(
                salts[:, part], shares[:, part], context=commitment_context(me.session, me.id, part)
            )
            for part in range(parts)
        ],
        axis=1,
    )
    # Nothing is said of what nobody can open.
    commitments[[neighbour is None for neighbour in hood.neighbours]] = 0
    await me.send(
        AGGREGATOR,
        Deal(np.frombuffer(salt, np.uint8), np.frombuffer(whole, np.uint8), boxes, commitments),
    )


async def receive(me: Me, hood: Hood, *, own_key: bytes, parts: int) -> Received:
    """Hear what the neighbours have dealt, open it and check it against the commitments.

    Raises:
        RemoteProtocolError: somebody has dealt who has not joined.
    """
    message = await me.receive(Dealt, AGGREGATOR)
    k = len(hood.neighbours)
    length = (message.boxes.shape[1] - SEAL_BYTES) // parts
    shares = np.zeros((k, parts, length), np.uint8)
    salts = np.zeros((k, parts, SALT_BYTES), np.uint8)
    good = np.zeros(k, np.bool_)
    dealt = message.dealt.astype(np.bool_)
    for row in np.flatnonzero(dealt).tolist():
        neighbour = hood.neighbours[row]
        if neighbour is None:
            raise RemoteProtocolError("a share of one who has not joined", field="Dealt.dealt")
        bound = hood.root + neighbour.mask_key + own_key
        try:
            content = neighbour.edge.open(
                "Deal",
                message.boxes[row].tobytes(),
                salt=message.salts[row].tobytes(),
                bound=bound,
            )
        except RemoteProtocolError:
            continue
        share = np.frombuffer(content, np.uint8).reshape(parts, length)
        known = commitment_salts(neighbour, parts, own=False)
        salt = np.frombuffer(known, np.uint8).reshape(parts, SALT_BYTES)
        if all(
            opens(
                message.commitments[row, part : part + 1],
                salts=salt[part : part + 1],
                shares=share[part : part + 1],
                context=commitment_context(me.session, neighbour.name, part),
            )[0]
            for part in range(parts)
        ):
            shares[row], salts[row], good[row] = share, salt, True
    return Received(dealt, good, shares, salts)


class Delivered(NamedTuple):
    """What the aggregator keeps of the boxes it carried.

    Args:
        dealt: who has dealt, by place.
        commitments: (parties, k, parts, 16), by dealer and its row.
        wholes: by dealer, what commits to the whole of its shares.
    """

    dealt: NDArray[np.bool_]
    commitments: Bytes
    wholes: Mapping[PartyId, bytes]


async def deliver(me: Me, meeting: Meeting, deals: dict[PartyId, Deal]) -> Delivered:
    """The aggregator's side: hand every dealer what its neighbours have dealt it.

    ``deals`` is emptied, for the boxes of a large survey take hundreds of megabytes.
    """
    n, k = meeting.hoods.shape
    places = {name: place for place, name in enumerate(meeting.names)}
    first = next(iter(deals.values()))
    boxes = np.zeros((n, *first.boxes.shape), np.uint8)
    commitments = np.zeros((n, *first.commitments.shape), np.uint8)
    salts = np.zeros((n, SALT_BYTES), np.uint8)
    dealt = np.zeros(n, np.bool_)
    wholes = {}
    for name in list(deals):
        message = deals.pop(name)
        place = places[name]
        boxes[place], commitments[place], dealt[place] = message.boxes, message.commitments, True
        salts[place] = message.salt
        wholes[name] = message.whole.tobytes()
    columns = mirror(np.arange(k), k)
    for place in np.flatnonzero(dealt).tolist():
        hood = meeting.hoods[place]
        there = dealt[hood]
        await me.send(
            meeting.names[place],
            Dealt(
                there.astype(np.uint8),
                salts[hood],
                boxes[hood, columns],
                commitments[hood, columns],
            ),
        )
    return Delivered(dealt, commitments, wholes)
