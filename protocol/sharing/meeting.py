"""Meeting of parties before they share: they send nonces, then a public coin draws the graph.

A party learns its neighbours' keys with a proof that they are on the roster. It needs neither the
roster nor other data that grows with the number of parties. The coin follows from the nonces of all
that joined, so nobody knows it when they send theirs. (Bell et al. 2020, section 3; the graph is a
Harary graph on a permutation.)
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.crypto.merkle import (
    HASH_BYTES,
    is_included,
    joint_path,
    joint_root,
    leaf_hash,
    tree_levels,
)
from protocol.crypto.octets import Octets, row_bytes, stacked
from protocol.crypto.randomness import Stream
from protocol.crypto.sealing import Edge, edge_key
from protocol.errors import RemoteProtocolError
from protocol.messages import AGGREGATOR, NONCE_BYTES, PartyId
from protocol.session.roles import Me
from protocol.session.roster import KEY_BYTES, roster_leaf
from protocol.sharing.graph import draw_order, neighbourhoods, neighbours_at
from protocol.sharing.messages import Graph, Join
from protocol.transcript.evidence import SUM_PURPOSE

_MANY = 2**32


def graph_context(session: bytes, root: bytes, joined: int, respondents: int) -> bytes:
    """The purpose of every key and every signature of a graph.

    With different numbers of respondents, parties would reduce by different moduli, and masks that
    do not cancel would reveal something. With this context, no box opens between such parties.

    Args:
        root: the root over all that joined.
        joined: the number of parties that joined.
        respondents: the number of their respondents.
    """
    return _drawn(session, root) + joined.to_bytes(8, "big") + respondents.to_bytes(8, "big")


def _drawn(session: bytes, root: bytes) -> bytes:
    return SUM_PURPOSE + session + root


NONCE = "nonce"
"""Purpose of the randomness that a party sends before it learns its neighbours."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Hood:
    """A party and its neighbours, one row each.

    Attributes:
        me: this party.
        place: its place among the parties of the roster, from 0.
        names, places: of the neighbours.
        there: (k,) the neighbours that take part, as far as known.
        keys: (k, 32) the keys that this party shares with each of them (``edge_key``).
        joined: the number of parties that take part, as far as known, with this one.
        respondents: of all that joined.
        context: the purpose of every key and signature among these neighbours. It contains the root
            over all that joined, their number and that of their respondents.
        stream: this party's randomness for this graph, independent of that for other graphs.
    """

    me: PartyId
    place: int
    names: tuple[PartyId, ...]
    places: NDArray[np.int64]
    there: NDArray[np.bool_]
    keys: Octets
    joined: int
    respondents: int
    context: bytes
    stream: Stream

    def __repr__(self) -> str:
        return f"<Hood: {self.me} and {int(self.there.sum())} of {len(self.names)} neighbours>"

    def rows(self) -> list[int]:
        """The rows of the neighbours that take part."""
        found: list[int] = np.flatnonzero(self.there).tolist()
        return found

    def edges(self) -> dict[int, Edge]:
        """Edges with each neighbour that takes part, by row."""
        keys = row_bytes(self.keys)
        return {row: Edge(self.me, self.names[row], keys[row]) for row in self.rows()}


async def join(me: Me, *, respondents: int, neighbours: int) -> Hood:
    """A party's side: send a nonce, receive the neighbours, check all of it.

    Args:
        respondents: the number of respondents that this party speaks for.
        neighbours: the number of neighbours of every party.

    Raises:
        RemoteProtocolError: the neighbours are not those that the coin draws, or not on the roster.
    """
    # The stream depends on the session, so no seed of a mask is ever used twice.
    nonce = me.stream.derive(f"{NONCE} {me.session.hex()}").bytes(NONCE_BYTES)
    await me.send(AGGREGATOR, Join(respondents, np.frombuffer(nonce, np.uint8)))
    graph = await me.receive(Graph, AGGREGATOR)
    parties = len(me.roster) - 1
    # Every other party speaks for one respondent at least.
    least = respondents + graph.joined - 1
    if not (0 < graph.joined <= parties and least <= graph.respondents <= _MANY):
        raise RemoteProtocolError(
            f"{graph.joined} parties with {graph.respondents} respondents; expected 1 to {parties} "
            f"parties, with at least {least} and at most {_MANY} respondents",
            field="Graph.respondents",
        )
    leaf, path = _leaf(me.id, nonce, respondents), row_bytes(graph.path)
    if not is_included(leaf, index=graph.index, count=graph.joined, path=path, root=graph.root):
        raise RemoteProtocolError("this party is not among those who joined", field="Graph.path")
    place = me.roster.position[me.id] - 1
    coin = _coin(me, graph.root)
    order = draw_order(coin, parties)
    places = neighbours_at(place, parties=parties, k=neighbours, order=order)
    keys = row_bytes(graph.keys)
    leaves = {
        # The aggregator is the roster's first member.
        other + 1: leaf_hash(roster_leaf(name, key))
        for other, name, key in zip(places.tolist(), graph.names, keys, strict=False)
    }
    root = joint_root(leaves, count=parties + 1, path=row_bytes(graph.proof))
    if len(graph.names) != neighbours or root != me.roster.root:
        raise RemoteProtocolError("the neighbours are not on the roster", field="Graph.proof")
    context = graph_context(me.session, graph.root, graph.joined, graph.respondents)
    shared = [bytes(KEY_BYTES)] * neighbours
    for row in np.flatnonzero(graph.there).tolist():
        try:
            shared[row] = edge_key(me.agree(keys[row]), context=context)
        except ValueError:
            raise RemoteProtocolError(
                f"{graph.names[row]}'s identity key is not a valid Ed25519 key", field="Graph.keys"
            ) from None
    return Hood(
        me=me.id,
        place=place,
        # Many parties of one process have the same neighbours' names.
        names=tuple(PartyId(sys.intern(name)) for name in graph.names),
        places=places,
        there=graph.there.astype(np.bool_),
        keys=stacked(shared, KEY_BYTES),
        joined=graph.joined,
        respondents=graph.respondents,
        context=context,
        # Of this session alone: two attempts may draw the same graph.
        stream=me.stream_for(graph).derive(f"session {me.session.hex()}"),
    )


class Meeting(NamedTuple):
    """The aggregator's side of it.

    Args:
        names: the roster's parties.
        joins: the messages of those that joined.
        hoods: everybody's neighbours, by place and row, (parties, k).
        context: as in ``Hood``.
    """

    names: Sequence[PartyId]
    joins: Mapping[PartyId, Join]
    hoods: NDArray[np.int64]
    context: bytes


async def meet(me: Me, joins: Mapping[PartyId, Join], *, neighbours: int) -> Meeting:
    """Draw the graph and send every party that joined its neighbours."""
    names = me.roster.parties
    places = {name: place for place, name in enumerate(names)}
    tree = tree_levels(
        [
            leaf_hash(_leaf(name, join_.nonce.tobytes(), join_.respondents))
            for name, join_ in joins.items()
        ]
    )
    root = tree[-1][0]
    respondents = sum(join_.respondents for join_ in joins.values())
    coin = _coin(me, root)
    hoods = neighbourhoods(draw_order(coin, len(names)), neighbours)
    roster = tree_levels(me.roster.leaves)
    keys = np.frombuffer(b"".join(key for _, key in me.roster.members[1:]), np.uint8)
    keys = keys.reshape(-1, KEY_BYTES)
    there = np.zeros(len(names), np.uint8)
    there[[places[name] for name in joins]] = 1
    for index, name in enumerate(joins):
        hood = hoods[places[name]]
        beside = hood.tolist()
        await me.send(
            name,
            Graph(
                respondents=respondents,
                joined=len(joins),
                root=root,
                index=index,
                path=stacked(joint_path(tree, [index]), HASH_BYTES),
                names=tuple([names[place] for place in beside]),
                keys=keys[hood],
                proof=stacked(joint_path(roster, [place + 1 for place in beside]), HASH_BYTES),
                there=there[hood],
            ),
        )
    return Meeting(names, joins, hoods, graph_context(me.session, root, len(joins), respondents))


def _leaf(name: PartyId, nonce: bytes, respondents: int) -> bytes:
    return respondents.to_bytes(8, "big") + name.encode() + b"\0" + nonce


def _coin(me: Me, root: bytes) -> bytes:
    return hashlib.sha256(b"coin\0" + _drawn(me.session, root)).digest()
