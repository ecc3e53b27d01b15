"""Neighbours compare what they hold, and stop if the aggregator sent them different things.

Each tags a digest for each of its neighbours with their common secret, so the aggregator, which
carries the tags, cannot make two different things look the same. Every party needs the confirmation
of so many neighbours that the honest parties cannot be split in two camps: all hold the same thing,
or some of them refuse.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from protocol.crypto.octets import row_bytes, stacked
from protocol.crypto.sealing import TAG_BYTES
from protocol.errors import RemoteProtocolError
from protocol.messages import AGGREGATOR, PartyId
from protocol.session.roles import Me
from protocol.sharing.graph import Degree, mirror
from protocol.sharing.meeting import Hood
from protocol.sharing.messages import Tagged, Tags

SURVIVORS, TOTALS = 0, 1
"""The rounds: a party agrees on the survivors before it unmasks, and on the totals afterwards."""


async def agree(me: Me, hood: Hood, digest: bytes, *, round: int, degree: Degree) -> None:
    """A party's side: send tags of its digest, and check those of the neighbours.

    Some neighbours may lie or be silent, if enough of the others confirm.

    Args:
        hood: the neighbours that have come so far.
        digest: the digest of what this party holds.
        round: the number of the agreement.
        degree: the numbers of neighbours, and of those that must hold the same.

    Raises:
        RemoteProtocolError: neighbours hold something else, or too few confirmed.
    """
    tags = np.zeros((len(hood.names), TAG_BYTES), np.uint8)
    tags[hood.there] = stacked([edge.tag(digest) for edge in hood.edges().values()], TAG_BYTES)
    await me.send(AGGREGATOR, Tags(round, tags))
    tagged = await me.receive(Tagged, AGGREGATOR, round=round)
    given = np.flatnonzero(tagged.given.astype(np.bool_) & hood.there).tolist()
    edges, said = hood.edges(), row_bytes(tagged.tags)
    other = [hood.names[row] for row in given if not edges[row].is_tag(said[row], digest)]
    agreeing = len(given) - len(other)
    if agreeing >= degree.threshold:
        return
    if other:
        raise RemoteProtocolError(
            f"digest {digest.hex()[:16]} is not confirmed by {', '.join(other[:5])}",
            field="Tagged.tags",
        )
    raise RemoteProtocolError(
        f"{agreeing} neighbours confirmed it, at least {degree.threshold} needed",
        field="Tagged.given",
    )


async def carry(
    me: Me,
    parties: Sequence[PartyId],
    hoods: NDArray[np.int64],
    *,
    round: int,
    within: float | None,
    quorum: int,
) -> tuple[PartyId, ...]:
    """The aggregator's side: carry all tags to the neighbours.

    Args:
        parties: the parties that take part.
        hoods: everybody's neighbours, by place and row.
        round: the number of the agreement.

    Returns:
        The parties that sent tags.
    """
    tags = await me.gather(Tags, parties, round=round, within=within, at_least=quorum)
    n, k = hoods.shape
    names = me.roster.parties
    places = {name: place for place, name in enumerate(names)}
    given = np.zeros(n, np.bool_)
    table = np.zeros((n, k, TAG_BYTES), np.uint8)
    for name, message in tags.items():
        given[places[name]], table[places[name]] = True, message.tags
    back = mirror(np.arange(k), k)
    for name in tags:
        hood = hoods[places[name]]
        await me.send(name, Tagged(round, given[hood].astype(np.uint8), table[hood, back]))
    return tuple(tags)
