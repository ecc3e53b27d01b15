"""One exchange of sealed boxes: every party deals each of its neighbours one, by the aggregator.

The aggregator carries the boxes and sees ciphertext; it gets them of all neighbours in one message
and hands each party its own in one, so a party sends and receives two messages and not 2k.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.crypto.commitments import commit, opens
from protocol.crypto.octets import Octets, row_bytes, stacked
from protocol.crypto.sealing import HIDDEN_BYTES, SALT_BYTES, SEAL_BYTES, seal
from protocol.errors import RemoteProtocolError
from protocol.messages import AGGREGATOR, PartyId
from protocol.session.roles import Me
from protocol.sharing.graph import mirror
from protocol.sharing.meeting import Hood, Meeting
from protocol.sharing.messages import Deal, Dealt


def commitment_context(session: bytes, part: int) -> bytes:
    """Context of a commitment. Its owner is known from the sender."""
    return session + part.to_bytes(1, "big")


class Received(NamedTuple):
    """Shares that a party was dealt.

    Args:
        dealt: the neighbours that have dealt; this party has a mask with each of them.
        good: those with a box that opened and fits the commitments; the others are to blame.
        shares: (k, parts, bytes), zeros without a share.
        salts: (k, parts, 16), to open the commitments.
    """

    dealt: NDArray[np.bool_]
    good: NDArray[np.bool_]
    shares: Octets
    salts: Octets

    def __repr__(self) -> str:
        return f"<Received: {int(self.good.sum())} good shares of {len(self.good)} neighbours>"


def _salts(hidden: Sequence[bytes], parts: int) -> Octets:
    """Salts of the commitments to the content of boxes, (n, parts, 16), known to both neighbours.

    Args:
        hidden: the hidden bytes of each box.
    """
    known = stacked(hidden, HIDDEN_BYTES)
    return known.reshape(len(hidden), HIDDEN_BYTES // SALT_BYTES, SALT_BYTES)[:, :parts]


async def deal(
    me: Me, hood: Hood, shares: Octets, *, whole: bytes, seeds: Octets, digests: Octets
) -> None:
    """Seal every neighbour's shares, commit to them, and hand all to the aggregator.

    Args:
        shares: (k, parts, bytes), those of row c for neighbour c.
        whole: commits to the seed of this party's own mask, 32 bytes.
        seeds, digests: of its masks with the neighbours, as in ``Deal``.
    """
    k, parts, length = shares.shape
    size = parts * length
    contents = row_bytes(shares.reshape(k, size))
    letters = [(edge, contents[row], b"") for row, edge in hood.edges().items()]
    salt, sealed, hidden = seal(me.stream, "Deal", letters)
    boxes = np.zeros((k, size + SEAL_BYTES), np.uint8)
    salts = np.zeros((k, parts, SALT_BYTES), np.uint8)
    boxes[hood.there] = stacked(sealed, size + SEAL_BYTES)
    salts[hood.there] = _salts(hidden, parts)
    commitments = np.stack(
        [
            commit(salts[:, part], shares[:, part], context=commitment_context(me.session, part))
            for part in range(parts)
        ],
        axis=1,
    )
    # A box that cannot be opened gets no commitment.
    commitments[~hood.there] = 0
    await me.send(
        AGGREGATOR,
        Deal(
            np.frombuffer(salt, np.uint8),
            np.frombuffer(whole, np.uint8),
            boxes,
            commitments,
            seeds,
            digests,
        ),
    )


async def receive(me: Me, hood: Hood, *, parts: int) -> Received:
    """Receive the shares of the neighbours, open and check them against the commitments.

    Raises:
        RemoteProtocolError: a party has dealt that has not joined.
    """
    message = await me.receive(Dealt, AGGREGATOR)
    k = len(hood.names)
    size = message.boxes.shape[1] - SEAL_BYTES
    length = size // parts
    dealt = message.dealt.astype(np.bool_)
    if (dealt & ~hood.there).any():
        raise RemoteProtocolError("shares from a party that has not joined", field="Dealt.dealt")
    edges = hood.edges()
    boxes, given = row_bytes(message.boxes), row_bytes(message.salts)
    good = np.zeros(k, np.bool_)
    contents, hidden = [], []
    for row in np.flatnonzero(dealt).tolist():
        try:
            opened = edges[row].open("Deal", boxes[row], salt=given[row])
        except RemoteProtocolError:
            continue
        good[row] = True
        contents.append(opened[0])
        hidden.append(opened[1])
    shares = np.zeros((k, parts, length), np.uint8)
    salts = np.zeros((k, parts, SALT_BYTES), np.uint8)
    shares[good] = stacked(contents, size).reshape(-1, parts, length)
    salts[good] = _salts(hidden, parts)
    for part in range(parts):
        good &= opens(
            message.commitments[:, part],
            salts=salts[:, part],
            shares=shares[:, part],
            context=commitment_context(me.session, part),
        )
    shares[~good] = salts[~good] = 0
    return Received(dealt, good, shares, salts)


class Delivered(NamedTuple):
    """Boxes that the aggregator carried, as far as it keeps them.

    Args:
        dealt: the parties that have dealt, by place.
        masked: (parties, k) the neighbours that each has a mask with: both have dealt, and their
            digests are equal.
        commitments: (parties, k, parts, 16), by dealer and its row.
        wholes: by dealer, the commitment to the seed of its own mask.
        seeds: (parties, k, 32) of each dealer's masks with its neighbours, encrypted.
        digests: (parties, k, 16) of these seeds.
    """

    dealt: NDArray[np.bool_]
    masked: NDArray[np.bool_]
    commitments: Octets
    wholes: Mapping[PartyId, bytes]
    seeds: Octets
    digests: Octets


async def deliver(me: Me, meeting: Meeting, deals: dict[PartyId, Deal]) -> Delivered:
    """The aggregator's side: hand every dealer the boxes of its neighbours.

    ``deals`` is emptied, since the boxes of a large survey take hundreds of megabytes.
    """
    n, k = meeting.hoods.shape
    places = {name: place for place, name in enumerate(meeting.names)}
    first = next(iter(deals.values()))
    boxes = np.zeros((n, *first.boxes.shape), np.uint8)
    commitments = np.zeros((n, *first.commitments.shape), np.uint8)
    seeds = np.zeros((n, *first.seeds.shape), np.uint8)
    digests = np.zeros((n, *first.digests.shape), np.uint8)
    salts = np.zeros((n, SALT_BYTES), np.uint8)
    dealt = np.zeros(n, np.bool_)
    wholes = {}
    for name in list(deals):
        message = deals.pop(name)
        place = places[name]
        boxes[place], commitments[place], dealt[place] = message.boxes, message.commitments, True
        salts[place], seeds[place], digests[place] = message.salt, message.seeds, message.digests
        wholes[name] = message.whole.tobytes()
    columns = mirror(np.arange(k), k)
    masked = np.zeros((n, k), np.bool_)
    for place in np.flatnonzero(dealt).tolist():
        hood = meeting.hoods[place]
        masked[place] = dealt[hood] & (digests[hood, columns] == digests[place]).all(axis=1)
        given = masked[place][:, None]
        await me.send(
            meeting.names[place],
            Dealt(
                masked[place].astype(np.uint8),
                salts[hood] * given,
                boxes[hood, columns] * given,
                commitments[hood, columns] * given[:, None],
            ),
        )
    return Delivered(dealt, masked, commitments, wholes, seeds, digests)
