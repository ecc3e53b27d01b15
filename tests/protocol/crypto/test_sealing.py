"""What is sealed opens for one member only, and no secret of a sum is ever said or shown."""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import AGGREGATOR, Me, PartyId, SecureSum, Stream
from protocol.crypto.sealing import Edge, edge_key, seal
from protocol.crypto.shamir import share
from protocol.messages import ROLE_STREAM
from protocol.sharing.masks import mask_seed, seed_digest
from protocol.sharing.messages import Graph
from protocol.variants import SecureSumVariant
from tests.protocol.sessions import (
    STREAMS,
    SURVEY,
    answers,
    charter_of,
    holdings_of,
    identities_of,
    machine_of,
    rehearsed,
)
from tests.protocol.sharing.test_sums import LITERAL, SPARSE, counted, vanishing
from tests.protocol.sharing.test_sums_attacks import graph_context
from tests.recorded.runs import Run

ONE, TWO, THREE = (PartyId(f"party-{i}") for i in (1, 2, 3))
KEY = bytes(range(32))
CONTEXT = b"a sum"


def edges(first: PartyId = ONE, second: PartyId = TWO, key: bytes = KEY) -> tuple[Edge, Edge]:
    return Edge(first, second, key), Edge(second, first, key)


Letters = list[tuple[str, str, bytes, bytes]]
"""Sender, recipient, content and what it is bound to, of each box of a message."""

names = st.sampled_from(["a", "ab", "b", "bc", "c"])
letters = st.lists(
    st.tuples(names, names, st.binary(max_size=3), st.binary(max_size=3)), max_size=3
)


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(st.tuples(st.sampled_from(["Deal", "Unmask"]), letters), st.data())
def test_one_salt_never_meets_two_contents(first: tuple[str, Letters], data: st.DataObject) -> None:
    """Whatever a party is asked, and however often it starts anew."""
    second = data.draw(
        st.one_of(st.just(first), st.tuples(st.sampled_from(["Deal", "Unmask"]), letters))
    )
    one, other = (sealed_by(KEY, *message) for message in (first, second))
    assert (one == other) == (first == second)
    assert (one[0] == other[0]) == (first == second)
    # It is a secret's, so that nobody can test guesses of a content by it.
    assert sealed_by(bytes(32), *first)[0] != one[0]


def test_letters_that_are_cut_elsewhere_have_another_salt() -> None:
    cut: list[Letters] = [
        [("a", "b", b"xy", b"")],
        [("a", "b", b"", b"xy")],
        [("a", "b", b"x", b"y")],
        [("a", "b", b"", b""), ("a", "b", b"xy", b"")],
        [("ab", "c", b"xy", b"")],
        [("a", "bc", b"xy", b"")],
    ]
    assert len({sealed_by(KEY, "Deal", said)[0] for said in cut}) == len(cut)


def sealed_by(key: bytes, kind: str, said: Letters) -> tuple[bytes, list[bytes]]:
    stream = Stream(key)
    edges_ = [(Edge(PartyId(a), PartyId(b), KEY), content, bound) for a, b, content, bound in said]
    salt, boxes, _ = seal(stream, kind, edges_)
    stream.words(3)
    # However much was drawn in between.
    assert seal(stream, kind, edges_)[:2] == (salt, boxes)
    return salt, boxes


def test_an_edge_shows_no_key() -> None:
    mine, _ = edges()
    for shown in (repr(mine), str(mine), f"{mine!r:>40}"):
        assert shown.strip() == "Edge('party-1', 'party-2')"
        assert KEY.hex() not in shown
    assert not hasattr(mine, "__dict__")


def test_two_have_one_seed_and_other_two_another() -> None:
    mine, yours = edges()
    seed = mask_seed(mine)
    assert seed == mask_seed(yours)
    assert seed != mask_seed(edges(ONE, THREE)[0])
    assert seed != mask_seed(edges(key=bytes(32))[0])
    # It is not what a box or a tag is from.
    assert seed not in {mine.secret("another"), mine._derive("tag", *sorted(mine.ends), b"")[:32]}


def test_a_digest_is_of_one_seed_for_one_pair_in_one_graph() -> None:
    digest = seed_digest(KEY, CONTEXT, (ONE, TWO))
    assert digest == seed_digest(KEY, CONTEXT, (TWO, ONE))
    others = {
        seed_digest(bytes(32), CONTEXT, (ONE, TWO)),
        seed_digest(KEY, b"another sum", (ONE, TWO)),
        seed_digest(KEY, CONTEXT, (ONE, THREE)),
    }
    assert len(others - {digest}) == 3


class Secrets:
    """What a party draws in a sum, derived anew from its stream."""

    def __init__(self, trial: Run, name: PartyId) -> None:
        variant = trial.charter.variant
        assert isinstance(variant, SecureSumVariant)
        degree = variant.sums.degree(len(trial.charter.roster) - 1)
        stream = STREAMS.stream(name, ROLE_STREAM)
        me = Me(name, trial.charter.roster, stream, session=trial.charter.session)
        [graph] = [
            trial.charter.codec.decode(e.kind, e.body)
            for e in trial.heard[name]
            if e.kind == "Graph"
        ]
        assert isinstance(graph, Graph)
        self.context = graph_context(trial.charter.session, graph)
        drawn = me.stream_for(graph).derive(f"session {me.session.hex()}")
        self.own_seed, self.seed_key = drawn.bytes(32), drawn.bytes(32)
        content = np.frombuffer(self.own_seed + self.seed_key, np.uint8)
        shares = share(
            content, shares=degree.neighbours, threshold=degree.threshold, stream=drawn
        ).reshape(-1, 32)
        self.shares = [row.tobytes() for row in shares]
        identity = identities_of(trial.charter)[name]
        edges = {
            other: edge_key(identity.agree(trial.charter.roster.key(other)), context=self.context)
            for other, _ in trial.charter.roster.members
            if other != name
        }
        self.edges = list(edges.values())
        self.masks = {
            other: mask_seed(Edge(name, other, edges[other])) for other in map(PartyId, graph.names)
        }
        self.digests = [
            seed_digest(seed, self.context, (name, other)) for other, seed in self.masks.items()
        ]

    def all(self) -> list[bytes]:
        return [self.own_seed, self.seed_key, *self.shares, *self.edges, *self.masks.values()]


@pytest.mark.parametrize("opening", ["published", "withheld"])
@pytest.mark.parametrize("gone", [{}, {TWO: "Upload", THREE: "Tags"}], ids=["all", "some"])
def test_no_secret_is_said_or_shown(
    gone: dict[PartyId, str], opening: Literal["published", "withheld"]
) -> None:
    """Not even of those that vanish, whose secrets are reconstructed.

    An opening has one of the two secrets of each.
    """
    sums = msgspec.structs.replace(SPARSE, opening=opening)
    variant = SecureSumVariant(survey=SURVEY, sums=sums, everyone=True)
    charter = charter_of(variant, 7)
    trial = rehearsed(charter, holdings_of(charter, answers(SURVEY, 7)), fate=vanishing(gone))
    record = b"".join(e.body for e in trial.said())
    shown = " ".join(
        [
            *(repr(charter.codec.decode(e.kind, e.body)) + repr(e) for e in trial.said()),
            repr(trial.result) + repr(trial.failure),
            *trial.endings.values(),
        ]
    )
    for name in charter.roster.parties:
        secrets = Secrets(trial, name)
        # What is derived here is what the party has used.
        assert all(digest in record for digest in secrets.digests)
        assert hashlib.sha256(secrets.context + secrets.own_seed).digest() in record
        opens = secrets.seed_key if gone.get(name) == "Upload" else secrets.own_seed
        for secret in secrets.all():
            published = opening == "published" and secret == opens
            assert (secret in record) == published
            assert (secret[:16] in record) == published
            for form in (secret.hex(), repr(secret), repr(np.frombuffer(secret, np.uint8))):
                assert form not in shown


@pytest.mark.parametrize("sums", [SPARSE, LITERAL], ids=["sparse", "literal"])
def test_no_partys_own_counts_are_said(sums: SecureSum) -> None:
    charter = charter_of(SecureSumVariant(survey=SURVEY, sums=sums, max_records=3), 6)
    holdings = holdings_of(charter, answers(SURVEY, 17))
    trial = rehearsed(charter, holdings)
    assert trial.failure is None
    kind, dtype = ("Upload", "<u2") if sums.profile == "sparse" else ("Partial", "u1")
    for name, held in holdings.items():
        own = np.array(counted(SecureSumVariant(survey=SURVEY), {name: held}, [name]), dtype)
        said = b"".join(e.body for e in trial.said() if e.sender in (name, AGGREGATOR))
        assert len(trial.messages(kind, name)) == 1
        assert own.tobytes() not in said


def test_a_machine_in_the_middle_of_a_sum_shows_nothing() -> None:
    charter = charter_of(SecureSumVariant(survey=SURVEY))
    machine = machine_of(charter, ONE)
    machine.start(0.0)
    assert repr(machine) == "Machine('party-1', round 0)"
