"""Opening of a sparse sum: recovered from shares by the aggregator's key, or read from the record.

Its holder can remove the masks from the total, so the record has it unless the survey withholds it.
The aggregator's role checks it in the same way in both cases.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.crypto.commitments import opens
from protocol.crypto.octets import Octets
from protocol.crypto.sealing import Edge, edge_key
from protocol.crypto.shamir import reconstruct
from protocol.errors import ProtocolError, RemoteProtocolError
from protocol.session.roles import Me
from protocol.sharing.dealing import Delivered, commitment_context
from protocol.sharing.graph import Degree, mirror
from protocol.sharing.meeting import Meeting
from protocol.sharing.messages import (
    OPENED,
    OWN,
    PAIRWISE,
    REVEALED,
    SECRET_BYTES,
    Opening,
    Unmask,
)

Flags = NDArray[np.bool_]


class Opened(NamedTuple):
    """Known secrets of all parties, by place; the columns are those of ``Opening``.

    Args:
        opened: (n,) enough of its shares were valid.
        secrets: (n, 32).
        accused: (n,) its box or one of its shares was invalid.
    """

    opened: Flags
    secrets: Octets
    accused: Flags

    def __repr__(self) -> str:
        return f"<Opened: {int(self.opened.sum())} of {len(self.opened)} parties>"


async def opened(me: Me, recover: Callable[[], Opened], *, parties: int, published: bool) -> Opened:
    """Open the sum, for the record too if the opening is published."""
    if not published:
        return recover()
    known = functools.cache(recover)
    parts = [
        await me.disclose(Opening, functools.partial(_part, known, round), round=round)
        for round in range(-(-parties // OPENED))
    ]
    flags, secrets, accused = (
        np.concatenate([getattr(part, column) for part in parts]) for column in Opened._fields
    )
    if any(column[parties:].any() for column in (flags, secrets, accused)):
        raise ProtocolError("the opening has a row that stands for no party")
    return Opened(
        flags[:parties].astype(np.bool_), secrets[:parties], accused[:parties].astype(np.bool_)
    )


def _part(known: Callable[[], Opened], round: int) -> Opening:
    """One part of an opening; all parts have equally many rows."""
    size = min(len(known().opened), OPENED)

    def rows(column: NDArray[np.generic]) -> Octets:
        part = column[round * size : (round + 1) * size].astype(np.uint8)
        return np.concatenate([part, np.zeros((size - len(part), *part.shape[1:]), np.uint8)])

    return Opening(round, *map(rows, known()))


def recover(
    me: Me,
    meeting: Meeting,
    delivered: Delivered,
    uploaded: Flags,
    unmasks: Mapping[int, Unmask],
    rejected: Flags,
    *,
    degree: Degree,
    digest: bytes,
) -> Opened:
    """Open the boxes of the parties that unmask, and combine the shares in them.

    Args:
        uploaded: (n,) by place.
        unmasks: by place.
        rejected: (n, k) the neighbours whose box a party could not open, so that it has no share.
        digest: of the survivor set.
    """
    n, k = meeting.hoods.shape
    accused, enough = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    revealed, gave = np.zeros((n, k, REVEALED), np.uint8), np.zeros(n, np.bool_)
    for place, unmask in unmasks.items():
        rows = _revealed(me, meeting, place, unmask, digest=digest)
        if rows is None:
            accused[place] = True
        else:
            revealed[place], gave[place] = rows, True
    back = mirror(np.arange(k), k)
    dealers = np.flatnonzero(delivered.dealt)
    chosen = np.zeros((len(dealers), degree.threshold), np.int64)
    shares = np.zeros((len(dealers), degree.threshold, SECRET_BYTES), np.uint8)
    for i, place in enumerate(dealers.tolist()):
        hood = meeting.hoods[place]
        given = revealed[hood, back]
        there = gave[hood] & ~rejected[hood, back]
        kind = OWN if uploaded[place] else PAIRWISE
        good = opens(
            delivered.commitments[place, :, kind],
            salts=given[:, SECRET_BYTES:],
            shares=given[:, :SECRET_BYTES],
            context=commitment_context(me.session, kind),
        )
        accused[hood[there & ~good]] = True
        valid = np.flatnonzero(there & good)[: degree.threshold]
        enough[place] = len(valid) == degree.threshold
        if enough[place]:
            chosen[i], shares[i] = valid, given[valid, :SECRET_BYTES]
    secrets = np.zeros((n, SECRET_BYTES), np.uint8)
    # No secret of a sum that cannot be unmasked is published.
    if enough[dealers].all():
        secrets[dealers] = reconstruct(shares, chosen)
    return Opened(enough, secrets, accused)


def _revealed(
    me: Me, meeting: Meeting, place: int, unmask: Unmask, *, digest: bytes
) -> Octets | None:
    """Secrets that a party reveals, (k, bytes), a row per neighbour; None if its box is invalid."""
    name, k = meeting.names[place], meeting.hoods.shape[1]
    try:
        secret = me.agree(me.roster.key(name))
        edge = Edge(me.id, name, edge_key(secret, context=meeting.context))
        content, _ = edge.open("Unmask", unmask.box, salt=unmask.salt, bound=digest)
    except (RemoteProtocolError, ValueError):
        return None
    rows = np.frombuffer(content, np.uint8)
    return rows.reshape(-1, REVEALED) if rows.size == k * REVEALED else None


def check(
    found: Opened,
    meeting: Meeting,
    delivered: Delivered,
    gave: Flags,
    rejected: Flags,
    *,
    degree: Degree,
    accused: Flags,
) -> None:
    """Refuse an opening that does not open the sum. Unmasking checks the secrets themselves.

    Args:
        gave: (n,) the parties that have signed that they unmask.
        rejected: (n, k) the neighbours whose box a party could not open, so that it has no share.
        accused: (n,) the parties accused of anything, to be named.

    Raises:
        ProtocolError: names the party with a missing secret, or named without a reason.
    """

    def named(places: Flags) -> str:
        return ", ".join(meeting.names[place] for place in np.flatnonzero(places).tolist())

    for places, says in (
        (
            (found.opened | found.secrets.any(axis=1)) & ~delivered.dealt,
            "has a secret of {}, who dealt none",
        ),
        (found.accused & ~gave, "accuses {}, who revealed nothing"),
    ):
        if places.any():
            raise ProtocolError(f"the opening {says.format(named(places))}")
    back = mirror(np.arange(degree.neighbours), degree.neighbours)
    revealed = gave[meeting.hoods] & ~rejected[meeting.hoods, back]
    # An accused party has at least one invalid share; others may be valid.
    valid = revealed & ~found.accused[meeting.hoods]
    for place in np.flatnonzero(found.opened & (revealed.sum(axis=1) < degree.threshold)).tolist():
        raise ProtocolError(
            f"the opening has the secret of {meeting.names[place]}, of which "
            f"{revealed[place].sum()} neighbours have revealed shares, at least "
            f"{degree.threshold} needed"
        )
    missing = np.flatnonzero(delivered.dealt & ~found.opened).tolist()
    if missing:
        name, hood, given = meeting.names[missing[0]], meeting.hoods[missing[0]], valid[missing[0]]
        if given.sum() >= degree.threshold:
            raise ProtocolError(
                f"the opening lacks the secret of {name}, of which {given.sum()} neighbours have "
                "revealed shares"
            )
        silent = ", ".join(meeting.names[other] for other in hood[~given][:5].tolist())
        raise ProtocolError(
            f"the sum cannot be unmasked: {given.sum()} of {degree.threshold} shares of {name}'s "
            f"secret; no valid share from {silent}"
            + (f"; accused: {named(accused)}" if accused.any() else "")
        )
