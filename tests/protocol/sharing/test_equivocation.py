"""Aggregators that tell parties different things, with corrupt ones or without, to learn more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import maximum_flow

from protocol import AGGREGATOR, Me, Message, PartyId, SecureSum
from protocol.crypto.commitments import opens
from protocol.crypto.sealing import TAG_BYTES, Edge, edge_key
from protocol.crypto.shamir import reconstruct
from protocol.messages import Envelope
from protocol.session.charter import Charter
from protocol.sharing import sparse
from protocol.sharing.dealing import commitment_context
from protocol.sharing.graph import Degree
from protocol.sharing.masks import encrypt_seeds, expand_mask
from protocol.sharing.meeting import Hood
from protocol.sharing.messages import (
    REVEALED,
    SECRET_BYTES,
    Deal,
    Dealt,
    Graph,
    Survivors,
    Tagged,
    Tags,
    Unmask,
    Upload,
)
from protocol.sharing.sparse import OWN, PAIRWISE, survivors_digest
from protocol.variants import SecureSumVariant
from tests.protocol.sessions import (
    SURVEY,
    answers,
    charter_of,
    holdings_of,
    identities_of,
    rehearsed,
)
from tests.protocol.sharing.test_sums import counted, exact
from tests.protocol.sharing.test_sums_attacks import (
    PARTIES,
    THREE,
    TWO,
    WARY,
    attacked,
    graph_context,
    named,
    rewriting,
    surviving,
)
from tests.recorded.runs import Run
from tests.tiers import slow


class Overheard:
    """An aggregator that opens what parties reveal to it; it tells each of them what it likes."""

    def __init__(self) -> None:
        self.context = b""
        self.digests: dict[PartyId, bytes] = {}
        self.names: dict[PartyId, tuple[str, ...]] = {}
        self.commitments: dict[PartyId, Any] = {}
        self.revealed: dict[PartyId, Any] = {}
        self.session = b""
        self._identities = identities_of(charter_of(SecureSumVariant(survey=SURVEY), 8))

    def hear(self, item: Envelope, message: Message) -> None:
        if isinstance(message, Survivors):
            self.digests[item.recipient] = survivors_digest(message)
        elif isinstance(message, Graph):
            self.names[item.recipient] = message.names
            self.session, self.context = item.session, graph_context(item.session, message)
        elif isinstance(message, Deal):
            self.commitments[item.sender] = message.commitments
        elif isinstance(message, Unmask):
            self.revealed[item.sender] = self.opened(item.sender, message)

    def edge(self, party: PartyId, *, reverse: bool = False) -> Edge:
        """What a party and the aggregator share, from the aggregator's side or the party's."""
        secret = self._identities[AGGREGATOR].agree(self._identities[party].public)
        ends = (party, AGGREGATOR) if reverse else (AGGREGATOR, party)
        return Edge(*ends, edge_key(secret, context=self.context))

    def between(self, party: PartyId, other: PartyId) -> Edge:
        """What two parties share, from the side of the first."""
        secret = self._identities[party].agree(self._identities[other].public)
        return Edge(party, other, edge_key(secret, context=self.context))

    def opened(self, party: PartyId, message: Unmask) -> Any:
        """What a party reveals, (k, 48)."""
        content, _ = self.edge(party).open(
            "Unmask", message.box, salt=message.salt, bound=self.digests[party]
        )
        return np.frombuffer(content, np.uint8).reshape(-1, REVEALED)

    def resealed(self, party: PartyId, message: Unmask, rows: Any) -> Unmask:
        """What a party would send that reveals other things."""
        edge = self.edge(party, reverse=True)
        box, _ = edge._seal("Unmask", rows.tobytes(), salt=message.salt, bound=self.digests[party])
        return msgspec.structs.replace(message, box=box)

    def shares_of(self, party: PartyId) -> tuple[set[PartyId], set[PartyId]]:
        """Who has revealed a share of a party's own mask, and who of the key to its seeds."""
        found: tuple[set[PartyId], set[PartyId]] = (set(), set())
        for other, rows in self.revealed.items():
            if other == party:
                continue
            given = rows[[self.names[other].index(party)]]
            committed = self.commitments[party][[self.names[party].index(other)]]
            for part in (OWN, PAIRWISE):
                if opens(
                    committed[:, part],
                    salts=given[:, SECRET_BYTES:],
                    shares=given[:, :SECRET_BYTES],
                    context=commitment_context(self.session, part),
                )[0]:
                    found[part].add(other)
        return found


def test_a_false_share_is_told_from_a_true_one() -> None:
    """A party that seals and signs well, but reveals other shares than it was dealt."""
    aggregator = Overheard()

    def rewrite(item: Envelope, message: Message) -> Message | None:
        aggregator.hear(item, message)
        if item.sender not in (TWO, THREE) or not isinstance(message, Unmask):
            return None
        rows = aggregator.opened(item.sender, message).copy()
        rows[:, 3] ^= 1
        return aggregator.resealed(item.sender, message, rows)

    trial, holdings = attacked(rewrite)
    exact(trial, holdings, PARTIES)
    assert named(trial) == [TWO, THREE]


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.sets(st.sampled_from(PARTIES), max_size=2), min_size=2, max_size=3),
    st.lists(st.integers(0, 2), min_size=8, max_size=8),
    st.sets(st.sampled_from(PARTIES), max_size=2),
)
def test_honest_parties_unmask_one_set_whatever_they_are_told(
    gone: list[set[PartyId]], camps: list[int], corrupt: set[PartyId]
) -> None:
    """Parties are told of one survivor set or another. Two corrupt ones tell each what it wants to
    hear, and the aggregator keeps back the words of those who were told another thing."""
    aggregator = Overheard()

    def rewrite(item: Envelope, message: Message) -> Message | None:
        aggregator.hear(item, message)
        to = item.recipient
        if isinstance(message, Survivors):
            out = gone[camps[PARTIES.index(to)] % len(gone)] - {to}
            told = surviving([name not in out for name in PARTIES])
            aggregator.digests[to] = survivors_digest(told)
            return told
        if not isinstance(message, Tagged):
            return None
        given, tags = message.given.copy(), message.tags.copy()
        for place, name in enumerate(aggregator.names[to]):
            if name in corrupt:
                tag = aggregator.between(PartyId(name), to).tag(aggregator.digests[to])
                given[place], tags[place] = 1, np.frombuffer(tag, np.uint8)
            elif aggregator.digests[PartyId(name)] != aggregator.digests[to]:
                given[place] = 0
        return Tagged(message.round, given, tags)

    attacked(rewrite, everyone=False)
    honest = set(aggregator.revealed) - corrupt
    assert len({aggregator.digests[name] for name in honest}) <= 1
    threshold = WARY.degree(8).threshold
    for victim in set(PARTIES) - corrupt:
        own, pairwise = aggregator.shares_of(victim)
        assert not own & pairwise
        recovered = [len((kind - corrupt) | corrupt) >= threshold for kind in (own, pairwise)]
        assert not all(recovered)


def test_the_search_for_shares_finds_them() -> None:
    """In an honest run everybody reveals everybody's share of the own mask."""
    aggregator = Overheard()
    attacked(lambda item, message: aggregator.hear(item, message))
    for party in PARTIES:
        assert aggregator.shares_of(party) == (set(PARTIES) - {party}, set())


class Equivocation:
    """An aggregator alone that wants one party's counts: it tells each party of other survivors.

    Of a few neighbours of the victim it tells just enough others that they have not uploaded, and
    the victim that nobody else has dealt; so it gets the keys of all masks that the victim has, and
    from the rest, to whom the victim is a survivor, its own mask's seed.
    """

    def __init__(self, charter: Charter, honest: Run, victim: PartyId) -> None:
        self.charter, self.victim = charter, victim
        variant = charter.variant
        assert isinstance(variant, SecureSumVariant)
        self.degree = variant.sums.degree(len(charter.roster.parties))
        self.hoods: dict[PartyId, list[PartyId]] = {}
        self.context = b""
        for item in honest.said():
            if item.kind == "Graph":
                graph = charter.codec.decode(item.kind, item.body)
                assert isinstance(graph, Graph)
                self.hoods[item.recipient] = [PartyId(name) for name in graph.names]
                self.context = graph_context(item.session, graph)
        self.beside = self.hoods[victim][: self.degree.threshold]
        self.lies = self._lies()
        self.digests: dict[PartyId, bytes] = {}

    def _lies(self) -> dict[PartyId, set[PartyId]]:
        """Whom each party is told to be gone: never so many that it would notice by itself."""
        names = self.charter.roster.parties
        n, t = len(names), self.degree.threshold
        source, sink = n + len(self.beside), n + len(self.beside) + 1
        edges = [
            (source, i, 0 if name == self.victim else self.degree.neighbours - t)
            for i, name in enumerate(names)
        ]
        for x, name in enumerate(self.beside):
            edges.append((n + x, sink, t))
            edges += [(names.index(other), n + x, 1) for other in self.hoods[name]]
        rows, columns, capacities = zip(*edges, strict=True)
        graph = coo_matrix((capacities, (rows, columns)), (sink + 1, sink + 1), np.int32)
        found = maximum_flow(graph.tocsr(), source, sink)
        assert found.flow_value == t * t
        return {
            name: {gone for x, gone in enumerate(self.beside) if found.flow[i, n + x] > 0}
            for i, name in enumerate(names)
        }

    def rewrite(self, item: Envelope, message: Message) -> Message | None:
        """What it tells parties."""
        to, names = item.recipient, self.charter.roster.parties
        if isinstance(message, Dealt) and to == self.victim:
            dealt = np.isin(self.hoods[to], self.beside).astype(np.uint8)
            return msgspec.structs.replace(message, dealt=dealt)
        if not isinstance(message, Survivors):
            return None
        hidden = {*self.hoods[to]} - {*self.beside} if to == self.victim else self.lies[to]
        shown = {*names} - hidden
        told = surviving([name in shown for name in names])
        self.digests[to] = survivors_digest(told)
        return told

    def recovered(self, trial: Run) -> list[int] | None:
        """The victim's counts, by the aggregator's own key; None if it has too few shares."""
        codec, victim = self.charter.codec, self.victim
        me = identities_of(self.charter)[AGGREGATOR]
        context = self.context
        uploads, seeds, rows = {}, {}, {}
        for item in trial.said():
            message, name = codec.decode(item.kind, item.body), item.sender
            if isinstance(message, Upload):
                uploads[name] = message.values
            elif isinstance(message, Deal):
                seeds[name] = message.seeds
            elif isinstance(message, Unmask):
                secret = edge_key(me.agree(self.charter.roster.key(name)), context=context)
                content, _ = Edge(AGGREGATOR, name, secret).open(
                    "Unmask", message.box, salt=message.salt, bound=self.digests[name]
                )
                rows[name] = np.frombuffer(content, np.uint8).reshape(-1, REVEALED)

        def secret_of(name: PartyId, tellers: Sequence[PartyId]) -> bytes | None:
            there = [other for other in tellers if other in rows][: self.degree.threshold]
            if len(there) < self.degree.threshold:
                return None
            shares = [rows[other][self.hoods[other].index(name), :SECRET_BYTES] for other in there]
            places = np.array([[self.hoods[name].index(other) for other in there]])
            secret: bytes = reconstruct(np.stack(shares)[None], places)[0].tobytes()
            return secret

        true = [other for other in self.hoods[victim] if victim not in self.lies[other]]
        own = secret_of(victim, true)
        if own is None:
            return None
        values = uploads[victim] - expand_mask(own, len(uploads[victim]), bits=16)
        names = self.charter.roster.parties
        for name in self.beside:
            key = secret_of(name, [o for o in self.hoods[name] if name in self.lies[o]])
            if key is None:
                return None
            pairs = encrypt_seeds(key, seeds[name])
            seed = pairs[self.hoods[name].index(victim)].tobytes()
            mask = expand_mask(seed, len(values), bits=16)
            values = values - mask if names.index(victim) < names.index(name) else values + mask
        counts: list[int] = values.tolist()
        return counts


async def credulous(me: Me, hood: Hood, digest: bytes, *, round: int, degree: Degree) -> None:
    """Gives a word and takes any."""
    await me.send(AGGREGATOR, Tags(round, np.zeros((len(hood.names), TAG_BYTES), np.uint8)))
    await me.receive(Tagged, AGGREGATOR, round=round)


@pytest.mark.parametrize("agreeing", [True, False], ids=["agreeing", "credulous"])
@pytest.mark.parametrize("n", [24, slow(256)], ids=["complete", "sparse"])
def test_an_aggregator_that_tells_each_another_set_learns_nothing(
    n: int, agreeing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the words of the neighbours, the same attack reads one party's exact counts."""
    # As many as possible may be missing: else parties are not to be lied to about so many.
    dropped = 0.46 if n == 24 else 0.25
    sums = SecureSum(corrupt=0.0, dropped=dropped, correctness=3)
    variant = SecureSumVariant(survey=SURVEY, sums=sums, quorum=1)
    charter = charter_of(variant, n)
    holdings = holdings_of(charter, answers(SURVEY, n))
    assert (variant.sums.degree(n).neighbours == n - 1) == (n == 24)
    victim = charter.roster.parties[7]
    attack = Equivocation(charter, rehearsed(charter, holdings), victim)
    if not agreeing:
        monkeypatch.setattr(sparse, "agree", credulous)
    trial = rehearsed(charter, holdings, exchange=rewriting(charter.codec, attack.rewrite))
    assert trial.messages("Tally") == []
    if agreeing:
        assert attack.recovered(trial) is None
        # Whoever was lied to has noticed, and so has the victim.
        lied = {name for name, gone in attack.lies.items() if gone}
        assert lied | {victim} <= set(trial.refusals())
        assert all(why.startswith("Tagged.") for why in trial.refusals().values())
        assert not lied & {e.sender for e in trial.said() if e.kind == "Unmask"}
    else:
        assert trial.refusals() == {}
        assert attack.recovered(trial) == counted(variant, holdings, [victim])
