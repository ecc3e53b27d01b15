"""What the aggregator of a sparse sum does with the shares that parties reveal to it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from protocol.crypto.commitments import opens
from protocol.crypto.sealing import SALT_BYTES, Edge, edge_key
from protocol.crypto.shamir import reconstruct
from protocol.errors import ProtocolError, RemoteProtocolError
from protocol.messages import PartyId
from protocol.session.roles import Me
from protocol.sharing.dealing import Delivered, commitment_context
from protocol.sharing.graph import Degree, mirror
from protocol.sharing.meeting import Meeting
from protocol.sharing.messages import Unmask

SECRET_BYTES = 32
REVEALED = SECRET_BYTES + SALT_BYTES
"""The bytes that a party reveals for one neighbour: a share of one secret, and its salt."""

OWN, PAIRWISE = 0, 1
"""The two parts of a dealt share: of the dealer's own mask seed, and of its mask key."""


def signed(context: bytes, root: bytes) -> bytes:
    """What a party signs: which survivor set it has helped to unmask."""
    return context + b"unmasked" + root


class Opened:
    """The shares that parties reveal to the aggregator."""

    def __init__(self, me: Me, meeting: Meeting, *, context: bytes, root: bytes) -> None:
        n, k = meeting.hoods.shape
        self._me = me
        self._meeting = meeting
        self._context = context
        self._root = root
        self._places = {name: place for place, name in enumerate(meeting.names)}
        self._revealed = np.zeros((n, k, REVEALED), np.uint8)
        self._there = np.zeros((n, k), np.bool_)

    def add(self, name: PartyId, unmask: Unmask) -> bool:
        """Take what a party reveals; False if it is not what it should be."""
        me = self._me
        if not me.roster.verify(name, unmask.signature, signed(self._context, self._root)):
            return False
        try:
            secret = me.agree(me.roster.key(name))
            edge = Edge(me.id, name, edge_key(secret, context=self._context))
            content, _ = edge.open("Unmask", unmask.box, salt=unmask.salt, bound=self._root)
        except (RemoteProtocolError, ValueError):
            return False
        rows = np.frombuffer(content, np.uint8)
        if rows.size != self._revealed[0].size:
            return False
        place = self._places[name]
        self._revealed[place] = rows.reshape(-1, REVEALED)
        self._there[place] = self._revealed[place].any(axis=1)
        return True

    def recover(
        self,
        delivered: Delivered,
        uploaded: NDArray[np.bool_],
        *,
        degree: Degree,
        accused: set[PartyId],
    ) -> dict[int, bytes]:
        """By place, the secret of everybody who has dealt: the one that is to be known.

        Raises:
            ProtocolError: too few valid shares of a secret; it says whose, and who is to blame.
        """
        names, hoods = self._meeting.names, self._meeting.hoods
        back = mirror(np.arange(degree.neighbours), degree.neighbours)
        dealers = np.flatnonzero(delivered.dealt)
        chosen = np.zeros((len(dealers), degree.threshold), np.int64)
        shares = np.zeros((len(dealers), degree.threshold, SECRET_BYTES), np.uint8)
        for i, place in enumerate(dealers.tolist()):
            hood = hoods[place]
            revealed, there = self._revealed[hood, back], self._there[hood, back]
            kind = OWN if uploaded[place] else PAIRWISE
            good = opens(
                delivered.commitments[place, :, kind],
                salts=revealed[:, SECRET_BYTES:],
                shares=revealed[:, :SECRET_BYTES],
                context=commitment_context(self._me.session, kind),
            )
            accused.update(names[other] for other in hood[there & ~good].tolist())
            rows = np.flatnonzero(there & good)
            if len(rows) < degree.threshold:
                silent = ", ".join(names[other] for other in hood[~(there & good)][:5].tolist())
                blamed = ", ".join(name for name in names if name in accused)
                raise ProtocolError(
                    f"the sum cannot be unmasked: {len(rows)} of {degree.threshold} shares of "
                    f"{names[place]}'s secret; no valid share from {silent}"
                    + (f"; accused: {blamed}" if blamed else "")
                )
            chosen[i] = rows[: degree.threshold]
            shares[i] = revealed[chosen[i], :SECRET_BYTES]
        secrets = reconstruct(shares, chosen)
        return {
            place: secret.tobytes() for place, secret in zip(dealers.tolist(), secrets, strict=True)
        }
