"""How parties meet: what the aggregator tells them is what the coin gives, or they do not share."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import numpy as np
import pytest

from protocol import PartyId, Records, SecureSum, Stream
from protocol.sharing.graph import draw_order, neighbourhoods
from protocol.sharing.meeting import Hood
from protocol.sharing.messages import Graph, Join
from protocol.variants import SecureSumVariant
from tests.protocol.sessions import SURVEY, answers, charter_of, holdings_of, rehearsed
from tests.protocol.sharing.test_sums import LITERAL, SPARSE, exact, vanishing
from tests.protocol.sharing.test_sums_attacks import PARTIES, TWO, attacked, change, flipped
from tests.recorded.runs import Run
from tests.vectors.formats import tree_hash

CONTEXT = b"sottovoce sum 1\0"


def met(
    parties: int, sums: SecureSum = SPARSE, *, gone: dict[PartyId, str] | None = None
) -> tuple[Run, dict[PartyId, Records]]:
    charter = charter_of(SecureSumVariant(survey=SURVEY, sums=sums), parties)
    holdings = holdings_of(charter, answers(SURVEY, parties))
    return rehearsed(charter, holdings, fate=vanishing(gone or {})), holdings


def graphs(trial: Run) -> dict[PartyId, Graph]:
    found = {}
    for e in trial.said():
        if e.kind == "Graph":
            message = trial.charter.codec.decode(e.kind, e.body)
            assert isinstance(message, Graph)
            found[e.recipient] = message
    return found


@pytest.mark.parametrize(
    ("parties", "sums"), [(3, SPARSE), (9, SPARSE), (26, SPARSE), (5, LITERAL)]
)
def test_neighbours_are_those_that_the_public_coin_gives(parties: int, sums: SecureSum) -> None:
    """The coin, the tree and the graph, from their definitions."""
    gone = {PartyId("party-3"): "Join"} if parties > 20 else {}
    trial, _ = met(parties, sums, gone=gone)
    names = trial.charter.roster.parties
    joins = {
        e.sender: trial.messages("Join", e.sender)[0] for e in trial.said() if e.kind == "Join"
    }
    leaves = []
    for name in names:
        if name not in gone:
            join = joins[name]
            assert isinstance(join, Join)
            nonce = join.nonce.tobytes()
            leaves.append((1).to_bytes(8, "big") + name.encode() + b"\0" + nonce)
    root = tree_hash(leaves)
    coin = hashlib.sha256(b"coin\0" + CONTEXT + trial.charter.session + root).digest()
    hoods = neighbourhoods(draw_order(coin, parties), sums.degree(parties).neighbours)
    told = graphs(trial)
    assert set(told) == set(names) - set(gone)
    for name, graph in told.items():
        beside = [names[place] for place in hoods[names.index(name)].tolist()]
        assert list(graph.names) == beside
        assert (graph.root, graph.joined, graph.respondents) == (root, len(leaves), len(leaves))
        assert [key.tobytes() for key in graph.keys] == [
            trial.charter.roster.key(n) for n in beside
        ]
        assert graph.there.tolist() == [int(n not in gone) for n in beside]


@pytest.mark.slow
def test_another_nonce_makes_another_graph() -> None:
    """Whoever joins does not know the coin: it changes with every nonce."""
    first = graphs(met(26)[0])
    charter = charter_of(SecureSumVariant(survey=SURVEY, sums=SPARSE), 26).again(2)
    second = graphs(rehearsed(charter, holdings_of(charter, answers(SURVEY, 26))))
    assert {g.root for g in first.values()} != {g.root for g in second.values()}
    assert any(first[name].names != second[name].names for name in first)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"root": flipped()}, "this party is not among those who joined"),
        ({"index": flipped()}, "this party is not among those who joined"),
        ({"joined": 4}, "this party is not among those who joined"),
        ({"joined": 9}, "9 parties with 8 respondents; expected 1 to 8 parties"),
        ({"respondents": 7}, "8 parties with 7 respondents; expected 1 to 8 parties"),
        ({"joined": 0}, "0 parties with 8 respondents; expected 1 to 8 parties"),
        (
            {"respondents": 2**33},
            "8589934592 respondents; expected 1 to 8 parties, with at least 8 and at most 4294",
        ),
        ({"keys": flipped()}, "the neighbours are not on the roster"),
        ({"names": lambda old: ("mallory", *old[1:])}, "the neighbours are not on the roster"),
        ({"names": lambda old: (old[1], old[0], *old[2:])}, "the neighbours are not on the roster"),
        ({"names": lambda old: old[1:]}, "the neighbours are not on the roster"),
        ({"proof": flipped()}, "the neighbours are not on the roster"),
        ({"there": lambda old: old * 0}, "0 neighbours dealt valid shares, at least 5 needed"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_party_checks_whom_it_is_to_share_with(fields: dict[str, Any], says: str) -> None:
    trial, holdings = attacked(change("Graph", None, TWO, **fields), everyone=False)
    assert says in trial.refusals()[TWO]
    assert trial.messages("Upload", TWO) == []
    if trial.failure is None:
        exact(trial, holdings, [name for name in PARTIES if name != TWO])


def test_shares_of_who_has_not_joined_are_refused() -> None:
    by = change("Dealt", None, TWO, dealt=lambda old: old * 0 + 1)
    trial, _ = attacked(by, gone={PARTIES[0]: "Join"}, everyone=False)
    assert "shares from a party that has not joined" in trial.refusals()[TWO]
    assert trial.messages("Upload", TWO) == []


def test_boxes_of_another_graph_do_not_open() -> None:
    """An aggregator that shows one party another tree of those who joined gains nothing by it."""

    nonces = {}

    def rewrite(item: Any, message: Any) -> Any:
        if isinstance(message, Join):
            nonces[item.sender] = message.nonce.tobytes()
        # The root over another set, in which this party is alone.
        if not isinstance(message, Graph) or item.recipient != TWO:
            return None
        leaf = (1).to_bytes(8, "big") + TWO.encode() + b"\0" + nonces[TWO]
        root = tree_hash([leaf])
        return change("Graph", root=root, index=0, joined=1, path=message.path[:0])(item, message)

    trial, _ = attacked(rewrite, msgspec.structs.replace(LITERAL, corrupt=0.0), parties=2)
    # Among two there is one order, so this party accepts its neighbour; but no box opens.
    assert set(trial.refusals()) == set(PARTIES[:2])
    for why in trial.refusals().values():
        assert "invalid shares from party-" in why
    assert trial.messages("Partial") == []


def test_a_hood_shows_no_keys() -> None:
    shared = np.full((1, 32), 7, np.uint8)
    hood = Hood(
        me=TWO,
        place=1,
        names=(PARTIES[0],),
        places=np.zeros(1, np.int64),
        there=np.ones(1, np.bool_),
        keys=shared,
        joined=2,
        respondents=2,
        context=CONTEXT,
        stream=Stream(bytes(32)),
    )
    assert repr(hood) == str(hood) == "<Hood: party-2 and 1 of 1 neighbours>"
    assert repr(hood.edges()[0]) == "Edge('party-2', 'party-1')"
