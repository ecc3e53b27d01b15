"""A coalition at work: it opens what its keys open, reconstructs, takes off masks and adds up.

It does by cryptography what the judge of coalitions says can be done, and knows no graph theory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protocol import AGGREGATOR, Coalition, Me, Message, PartyId, RemoteProtocolError
from protocol.crypto.randomness import Streams
from protocol.crypto.sealing import Edge, edge_key
from protocol.crypto.shamir import reconstruct
from protocol.messages import ROLE_STREAM, Envelope
from protocol.session.charter import Charter
from protocol.session.roster import Identity
from protocol.sharing.masks import encrypt_seeds, expand_mask, mask_seed, modulus_bits, zero_shares
from protocol.sharing.messages import (
    OWN,
    PAIRWISE,
    SECRET_BYTES,
    Deal,
    Dealt,
    Graph,
    Join,
    Opening,
    Partial,
    Partials,
    Survivors,
    Unmask,
    Upload,
)
from protocol.sharing.sparse import survivors_digest
from protocol.transcript.entries import Delivered, Entry, Sent
from protocol.wire.arrays import smallest_dtype
from protocol.wire.codec import decode_envelope

Shares = dict[tuple[PartyId, int], dict[int, bytes]]
"""By dealer and part, what is known of the shares, by row."""


class Eavesdropper:
    """Reads a transcript with the eyes and the keys of a coalition.

    Args:
        identities: of the coalition and of those whose keys it has; no others are looked at.
        streams: of everybody; only those of the same are used.
    """

    def __init__(
        self,
        charter: Charter,
        entries: Iterable[Entry],
        coalition: Coalition,
        identities: Mapping[PartyId, Identity],
        streams: Streams,
    ) -> None:
        self.charter = charter
        self.coalition = coalition
        self.keys = {name: identities[name] for name in coalition.insiders if name in identities}
        self.streams = streams
        self.public: dict[tuple[PartyId, type[Message]], Any] = {}
        """What the protocol lets everybody know of each party: keys, neighbours, who has come."""
        self.seen: dict[tuple[PartyId, type[Message]], Any] = {}
        self._read(entries)
        graph = next(m for (_, kind), m in self.public.items() if kind is Graph)
        self.context = (
            b"sottovoce sum 1\0"
            + charter.session
            + graph.root
            + graph.joined.to_bytes(8, "big")
            + graph.respondents.to_bytes(8, "big")
        )
        self.respondents = graph.respondents

    def _read(self, entries: Iterable[Entry]) -> None:
        under_way: dict[tuple[PartyId, int], tuple[PartyId, Message]] = {}
        for entry in entries:
            if isinstance(entry, Sent):
                item = decode_envelope(entry.envelope)
                party = item.recipient if item.sender == AGGREGATOR else item.sender
                message = self.charter.codec.decode(item.kind, item.body)
                if isinstance(message, Graph | Join | Deal | Dealt | Survivors):
                    self.public[party, type(message)] = message
                if self._overhears(item):
                    self.seen[party, type(message)] = message
                under_way[item.sender, item.seq] = party, message
            elif isinstance(entry, Delivered) and entry.recipient in self.coalition.members:
                party, message = under_way[entry.sender, entry.seq]
                self.seen[party, type(message)] = message

    def _overhears(self, item: Envelope) -> bool:
        taps = {frozenset(pair) for pair in self.coalition.taps}
        ends = frozenset((item.sender, item.recipient))
        return (
            {AGGREGATOR, "record"} & set(self.coalition.members) != set()
            or item.sender in self.coalition.members
            or item.recipient == "record"
            or ends in taps
        )

    def hood(self, party: PartyId) -> tuple[PartyId, ...]:
        return tuple(PartyId(name) for name in self.public[party, Graph].names)

    def rows_of(self, party: PartyId) -> list[int]:
        """The rows of those that a party has masks with."""
        rows: list[int] = np.flatnonzero(self.public[party, Dealt].dealt).tolist()
        return rows

    def place(self, party: PartyId) -> int:
        return self.charter.roster.position[party]

    def _secrets(self, party: PartyId) -> tuple[bytes, bytes, Any]:
        """What a party of the coalition has drawn: key to seeds, own seed, and the stream anew."""
        stream = self.streams.stream(party, ROLE_STREAM)
        me = Me(party, self.charter.roster, stream, session=self.charter.session)
        drawn = me.stream_for(self.public[party, Graph]).derive(f"session {me.session.hex()}")
        again = me.stream_for(self.public[party, Graph]).derive(f"session {me.session.hex()}")
        own = drawn.bytes(SECRET_BYTES)
        return drawn.bytes(SECRET_BYTES), own, again

    def _open(self, dealer: PartyId, to: PartyId, box: bytes, *, salt: bytes) -> bytes | None:
        """What one party has dealt another; either's key derives that of the box."""
        try:
            return self._edge(to, dealer).open("Deal", box, salt=salt)[0]
        except RemoteProtocolError:
            return None

    def _edge(self, party: PartyId, other: PartyId) -> Edge:
        """What two share, of whom the key of one is known."""
        mine, peer = (party, other) if party in self.keys else (other, party)
        secret = self.keys[mine].agree(self.charter.roster.key(peer))
        return Edge(party, other, edge_key(secret, context=self.context))

    def boxes(self) -> Iterator[tuple[PartyId, PartyId, bytes]]:
        """All that is dealt and can be opened: dealer, neighbour, content."""
        sealed = []
        for (party, kind), message in self.seen.items():
            for row, other in enumerate(self.hood(party) if kind in (Deal, Dealt) else ()):
                box = message.boxes[row].tobytes()
                if kind is Deal:
                    sealed.append((party, other, box, message.salt.tobytes()))
                elif message.dealt[row]:
                    sealed.append((other, party, box, message.salts[row].tobytes()))
        for dealer, to, box, salt in sealed:
            known = dealer in self.keys or to in self.keys
            if known and {(dealer, Join), (to, Join)} <= self.public.keys():
                content = self._open(dealer, to, box, salt=salt)
                if content is not None:
                    yield dealer, to, content

    def secrets(self, threshold: int) -> tuple[dict[PartyId, bytes], dict[PartyId, bytes]]:
        """Own masks' seeds and keys to seeds: drawn, or put together from enough shares."""
        shares: Shares = {}
        for dealer, to, content in self.boxes():
            row = self.hood(dealer).index(to)
            shares.setdefault((dealer, OWN), {})[row] = content[:SECRET_BYTES]
            shares.setdefault((dealer, PAIRWISE), {})[row] = content[SECRET_BYTES:]
        for (party, kind), message in self.seen.items():
            if kind is Unmask and AGGREGATOR in self.keys:
                digest = survivors_digest(self.public[party, Survivors])
                secret = self.keys[AGGREGATOR].agree(self.charter.roster.key(party))
                edge = Edge(AGGREGATOR, party, edge_key(secret, context=self.context))
                content, _ = edge.open("Unmask", message.box, salt=message.salt, bound=digest)
                for i, dealer in enumerate(self.hood(party)):
                    share = content[i * (SECRET_BYTES + 16) :][:SECRET_BYTES]
                    # Of those whose box was no good there are zeros.
                    if i in self.rows_of(party) and any(share):
                        part = OWN if self._survives(dealer) else PAIRWISE
                        row = self.hood(dealer).index(party)
                        shares.setdefault((dealer, part), {})[row] = share
        found: tuple[dict[PartyId, bytes], dict[PartyId, bytes]] = ({}, {})
        for (dealer, part), rows in shares.items():
            if len(rows) >= threshold:
                chosen = sorted(rows)[:threshold]
                octets = np.stack([np.frombuffer(rows[row], np.uint8) for row in chosen])
                secret = reconstruct(octets[None], np.array([chosen]))[0].tobytes()
                found[part][dealer] = secret
        for message in self.seen.values():
            if isinstance(message, Opening):
                rows = zip(message.opened, message.secrets, strict=True)
                for name, (given, row) in zip(self.charter.roster.parties, rows, strict=False):
                    # A sum that cannot be unmasked has no secret on record.
                    if given and row.any():
                        found[OWN if self._survives(name) else PAIRWISE][name] = row.tobytes()
        for name in self.keys:
            if (name, Graph) in self.public:
                found[PAIRWISE][name], found[OWN][name], _ = self._secrets(name)
        return found

    def _survives(self, party: PartyId) -> bool:
        told = next(m for (_, kind), m in self.public.items() if kind is Survivors)
        return party in self.charter.roster.members_in(told.uploaded)

    def contributions(self) -> dict[PartyId, NDArray[np.int64]]:
        """What is seen of them, under masks."""
        found = {
            party: message.values.astype(np.int64)
            for (party, kind), message in self.seen.items()
            if kind in (Upload, Partial)
        }
        for (_, kind), message in self.seen.items():
            if kind is Partials:
                rows = zip(self.charter.roster.parties, message.values, strict=True)
                found |= {party: row.astype(np.int64) for party, row in rows}
        return found

    def uncovered(
        self, parties: Iterable[PartyId], threshold: int
    ) -> tuple[NDArray[np.int64], int]:
        """The sum over some parties' contributions without the masks that are known, modulo."""
        contributed = self.contributions()
        summed = [contributed[party] for party in parties]
        variant: Any = self.charter.variant
        if variant.sums.profile == "literal":
            return self._without_shares(parties, summed)
        return self._without_masks(parties, summed, threshold)

    def _without_masks(
        self, parties: Iterable[PartyId], summed: list[NDArray[np.int64]], threshold: int
    ) -> tuple[NDArray[np.int64], int]:
        variant: Any = self.charter.variant
        bits = modulus_bits(len(self.charter.roster.parties) * variant.max_records)
        own, seed_keys = self.secrets(threshold)
        total = np.sum(summed, axis=0)
        for party in parties:
            if party in own:
                total = total - expand_mask(own[party], len(total), bits=bits)
            for row in self.rows_of(party):
                other = self.hood(party)[row]
                seed = self._seed(party, other, seed_keys)
                if seed is None:
                    continue
                mask = expand_mask(seed, len(total), bits=bits).astype(np.int64)
                total = total - mask if self.place(party) < self.place(other) else total + mask
        return total % 2**bits, 2**bits

    def _seed(
        self, party: PartyId, other: PartyId, seed_keys: Mapping[PartyId, bytes]
    ) -> bytes | None:
        """The seed of the mask of two, from a key of theirs or from what either has dealt."""
        if {party, other} & self.keys.keys():
            return mask_seed(self._edge(party, other))
        for one, beside in ((party, other), (other, party)):
            if one in seed_keys and (one, Deal) in self.public:
                seeds = encrypt_seeds(seed_keys[one], self.public[one, Deal].seeds)
                return seeds[self.hood(one).index(beside)].tobytes()
        return None

    def _without_shares(
        self, parties: Iterable[PartyId], summed: list[NDArray[np.int64]]
    ) -> tuple[NDArray[np.int64], int]:
        modulus = self.respondents + 1
        variant: Any = self.charter.variant
        dtype = smallest_dtype(len(self.charter.roster.parties) * variant.max_records + 1)
        total = np.sum(summed, axis=0)
        inside = set(parties)
        boxes = {(dealer, to): np.frombuffer(c, dtype) for dealer, to, c in self.boxes()}
        for name in self.keys:
            if name != AGGREGATOR:
                stream = self._secrets(name)[2]
                k = len(self.charter.roster.parties)
                rows = zero_shares(len(total), parties=k, modulus=modulus, stream=stream)
                for to, row in zip(self.hood(name), rows[:-1], strict=True):
                    boxes[name, to] = row.astype(dtype)
        for (dealer, to), values in boxes.items():
            if to in inside and dealer not in inside:
                total = total - values
            if dealer in inside and to not in inside:
                total = total + values
        return total % modulus, modulus
