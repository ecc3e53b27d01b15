"""Neighbours tell each other what they hold: nobody goes on where one was told another thing.

Each tags a digest for each of its neighbours with what the two of them share, so the aggregator,
who carries the tags, cannot make two different things look the same. As the graph is connected,
all honest parties hold one thing, or some of them refuse.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from protocol.errors import RemoteProtocolError
from protocol.messages import AGGREGATOR, PartyId
from protocol.roles import Me
from protocol.sharing.graph import mirror
from protocol.sharing.meeting import Hood
from protocol.sharing.messages import Tagged, Tags
from protocol.sharing.sealing import TAG_BYTES


async def agree(me: Me, hood: Hood, digest: bytes, *, at_least: int) -> None:
    """A party's side: say what one holds, hear what the neighbours hold.

    Args:
        hood: who has come so far.
        digest: of what this party holds.
        at_least: how many neighbours must give their word.

    Raises:
        RemoteProtocolError: a neighbour holds another thing, or too few gave their word.
    """
    tags = np.zeros((len(hood.names), TAG_BYTES), np.uint8)
    for row in hood.rows():
        tags[row] = np.frombuffer(hood.edge(row).tag(digest), np.uint8)
    await me.send(AGGREGATOR, Tags(tags))
    tagged = await me.receive(Tagged, AGGREGATOR)
    given = tagged.given.astype(np.bool_) & hood.there
    for row in np.flatnonzero(given).tolist():
        if not hood.edge(row).is_tag(tagged.tags[row].tobytes(), digest):
            raise RemoteProtocolError(
                f"{hood.names[row]} was told something else (here: {digest.hex()[:16]})",
                field="Tagged.tags",
            )
    if given.sum() < at_least:
        raise RemoteProtocolError(
            f"{given.sum()} neighbours gave their word, {at_least} needed", field="Tagged.given"
        )


async def carry(
    me: Me,
    parties: Sequence[PartyId],
    hoods: NDArray[np.int64],
    *,
    within: float | None,
    quorum: int,
) -> tuple[PartyId, ...]:
    """The aggregator's side: carry everybody's tags to their neighbours.

    Args:
        parties: who takes part in it.
        hoods: everybody's neighbours, by place and row.

    Returns:
        Who gave their word.
    """
    tags = await me.gather(Tags, parties, within=within, at_least=quorum)
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
        await me.send(name, Tagged(given[hood].astype(np.uint8), table[hood, back]))
    return tuple(tags)
