"""Attacks on secure sums: by a hub or an aggregator that rewrites messages, and by parties."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import Message, PartyId, QuorumError, Records, SecureSum
from protocol.messages import Envelope
from protocol.session.exchange import Exchange, Ruling
from protocol.sharing.messages import Graph, Survivors
from protocol.transcript.verification import verify
from protocol.variants import SecureSumVariant
from protocol.wire.codec import Codec
from tests.protocol.sessions import SURVEY, answers, charter_of, holdings_of, rehearsed
from tests.protocol.sharing.test_sums import LITERAL, exact, vanishing
from tests.recorded.runs import Run
from tests.tiers import thinned

PARTIES = tuple(PartyId(f"party-{i}") for i in range(1, 9))
ONE, TWO, THREE = PARTIES[:3]
WARY = SecureSum(dropped=0.25)
"""Among 8 parties two may be missing: 5 of 7 shares reconstruct, and 2 boxes may be invalid."""


def graph_context(session: bytes, graph: Graph) -> bytes:
    """What the keys and signatures of a sum are for."""
    context = b"sottovoce sum 1\0" + session
    return b"".join(
        (context, graph.root, graph.joined.to_bytes(8, "big"), graph.respondents.to_bytes(8, "big"))
    )


Rewrite = Callable[[Envelope, Message], Message | None]
"""Makes another message of one, or leaves it as it is."""


def rewriting(codec: Codec, rewrite: Rewrite) -> type[Exchange]:
    """A hub that rewrites messages; it stands for whoever sends or carries them."""

    class Rewriting(Exchange):
        def accept(
            self, link: PartyId, envelopes: Sequence[Envelope], *, start: int = 0, **rest: Any
        ) -> Ruling:
            said = envelopes[start]
            other = rewrite(said, codec.decode(said.kind, said.body))
            if other is not None:
                said = msgspec.structs.replace(said, body=codec.encode(other))
            return super().accept(link, [said], now=rest["now"])

    return Rewriting


def attacked(
    rewrite: Rewrite,
    sums: SecureSum = WARY,
    *,
    parties: int = 8,
    gone: dict[PartyId, str] | None = None,
    **terms: Any,
) -> tuple[Run, dict[PartyId, Records]]:
    """A session in which messages are rewritten on their way, or by who sends them.

    Args:
        gone: who vanishes before it says what.
    """
    variant = SecureSumVariant(survey=SURVEY, sums=sums, **{"everyone": True, **terms})
    charter = charter_of(variant, parties)
    holdings = holdings_of(charter, answers(SURVEY, parties))
    fate, exchange = vanishing(gone or {}), rewriting(charter.codec, rewrite)
    return rehearsed(charter, holdings, fate=fate, exchange=exchange), holdings


def change(
    kind: str, sender: PartyId | None = None, to: PartyId | None = None, /, **fields: Any
) -> Rewrite:
    """Set fields of messages of a kind: to a value, or to what a function makes of the old one."""

    def rewrite(item: Envelope, message: Message) -> Message | None:
        if (
            item.kind != kind
            or sender not in (None, item.sender)
            or to not in (None, item.recipient)
        ):
            return None
        new = {}
        for name, value in fields.items():
            old = getattr(message, name)
            old = old.copy() if isinstance(old, np.ndarray) else old
            new[name] = value(old) if callable(value) else value
        return msgspec.structs.replace(message, **new)

    return rewrite


def flipped(place: int = 0, mask: int = 1) -> Callable[[Any], Any]:
    """Another value of the same shape: one bit differs."""

    def flip(old: Any) -> Any:
        if isinstance(old, bytes):
            i = place % len(old)
            return old[:i] + bytes([old[i] ^ mask]) + old[i + 1 :]
        if isinstance(old, int):
            return old ^ mask
        array = old.view(np.uint8).reshape(-1)
        if array.size:
            array[place % array.size] ^= mask
        return old

    return flip


def row(i: int, value: int) -> Callable[[Any], Any]:
    """Set one row of an array."""

    def put(old: Any) -> Any:
        old[i] = value
        return old

    return put


def moved(old: Any) -> Any:
    """One respondent less in one cell and one more in another: still a table of as many."""
    old[0] -= 1
    old[1] += 1
    return old


def surviving(uploaded: Sequence[bool]) -> Survivors:
    """A survivor set, by place: one bit for each member of the roster, the aggregator first."""
    bits = np.packbits(np.array([False, *uploaded]), bitorder="little")
    return Survivors(bits.tobytes())


def named(trial: Run, field: str = "accused") -> list[PartyId]:
    return trial.names(getattr(trial.published, field))


FIELDS = {
    "Join": "nonce",
    "Graph": "root path index joined respondents keys proof there",
    "Deal": "salt whole boxes commitments seeds digests",
    "Dealt": "dealt salts boxes commitments",
    "Upload": "values rejected",
    "Survivors": "uploaded",
    "Unmask": "signature salt box",
    "Totals": "totals respondents",
    "Partial": "signature",
    "Partials": "values",
    "Tags": "tags round",
    "Tagged": "given tags round",
}
PLACES = [(kind, field) for kind, fields in FIELDS.items() for field in fields.split()]
FLAGS = ("there", "dealt", "rejected", "given", "values", "totals", "joined", "index", "round")


@pytest.mark.slow
@pytest.mark.parametrize("sums", [WARY, LITERAL], ids=["sparse", "literal"])
@settings(deadline=None, max_examples=40)
@given(st.sampled_from(PLACES), st.integers(0, 2**16), st.integers(0, 7))
def test_no_flipped_bit_makes_a_sum_wrong(
    sums: SecureSum, where: tuple[str, str], place: int, bit: int
) -> None:
    kind, field = where
    # A flag or a count with a high bit set is refused for its range already.
    mask = 1 if field in FLAGS else 1 << bit
    by = change(kind, **{field: flipped(place, mask)})

    def rewrite(item: Envelope, message: Message) -> Message | None:
        return by(item, message) if TWO in (item.sender, item.recipient) else None

    trial, holdings = attacked(rewrite, sums)
    if trial.failure is None:
        exact(trial, holdings, named(trial, "survivors"))


EXACT_BUT_ACCUSED: Mapping[str, tuple[Rewrite, PartyId]] = {
    "a box": (change("Deal", TWO, boxes=flipped()), TWO),
    "a commitment": (change("Deal", TWO, commitments=flipped()), TWO),
    "a box on its way": (change("Dealt", None, ONE, boxes=flipped()), THREE),
    "a signature": (change("Unmask", TWO, signature=flipped()), TWO),
    "no signature": (change("Unmask", TWO, signature=b""), TWO),
    "an unmasking": (change("Unmask", TWO, box=flipped()), TWO),
    "no unmasking": (change("Unmask", TWO, box=b""), TWO),
}


@pytest.mark.parametrize("what", EXACT_BUT_ACCUSED)
def test_who_breaks_the_rules_is_accused_and_the_sum_is_exact(what: str) -> None:
    rewrite, culprit = EXACT_BUT_ACCUSED[what]
    trial, holdings = attacked(rewrite)
    exact(trial, holdings, PARTIES)
    # Of a box on its way it is whoever stands in that row.
    assert named(trial) == [culprit] or (what == "a box on its way" and len(named(trial)) == 1)


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("gone", [None, TWO], ids=["all", "one end"])
def test_neighbours_that_differ_about_their_mask_have_none(rows: int, gone: PartyId | None) -> None:
    """One of them lies, or the aggregator: of both nobody knows more, so both are accused."""
    beside: list[PartyId] = []

    def rewrite(item: Envelope, message: Message) -> Message | None:
        if isinstance(message, Graph) and item.recipient == TWO:
            beside[:] = [PartyId(name) for name in message.names[:rows]]
        return change("Deal", TWO, digests=differing(rows))(item, message)

    trial, holdings = attacked(rewrite, gone={} if gone is None else {gone: "Upload"})
    there = [name for name in PARTIES if name != gone]
    exact(trial, holdings, there)
    assert named(trial) == [name for name in PARTIES if name == TWO or name in beside]
    assert not any(message.rejected.any() for message in trial.messages("Upload"))
    # Whoever has no mask with it gets no share from it either.
    for message in trial.messages("Dealt"):
        assert not message.boxes[message.dealt == 0].any()


def differing(rows: int) -> Callable[[Any], Any]:
    """Other bytes in the first rows of an array."""

    def differ(old: Any) -> Any:
        old[:rows] ^= 1
        return old

    return differ


@pytest.mark.parametrize(
    "by",
    [
        change("Deal", TWO, digests=differing(7)),
        change("Deal", TWO, digests=differing(3)),
        change("Dealt", None, TWO, dealt=lambda old: old * 0),
    ],
    ids=["digests", "three digests", "flags"],
)
def test_who_has_too_few_masks_does_not_upload(by: Rewrite) -> None:
    trial, _ = attacked(by)
    assert "neighbours dealt valid shares, at least 5 needed" in trial.refusals()[TWO]
    assert trial.messages("Upload", TWO) == []


def test_an_aggregator_that_says_that_neighbours_differ_spoils_the_sum_alone() -> None:
    """One end has the mask and the other has not, so it does not cancel."""
    trial, _ = attacked(change("Dealt", None, TWO, dealt=row(0, 0)))
    assert "the totals are not counts" in str(trial.failure)
    assert trial.messages("Tally") == []


@pytest.mark.parametrize("gone", [False, True])
def test_seeds_of_other_masks_than_agreed_on_give_no_sum(gone: bool) -> None:
    """They are looked at where a party is gone, and say by themselves whose they are."""
    by = change("Deal", TWO, seeds=flipped())
    trial, holdings = attacked(by, gone={TWO: "Upload"} if gone else {})
    if gone:
        says = "the secret that opens party-2's masks is not what it committed to"
        assert says in str(trial.failure)
    else:
        exact(trial, holdings, PARTIES)
        assert named(trial) == []


@pytest.mark.parametrize("respondents", thinned([0, -1, 2, 2**40], 3))
def test_who_speaks_for_nobody_or_too_many_is_left_out(respondents: int) -> None:
    trial, holdings = attacked(change("Join", TWO, respondents=respondents))
    exact(trial, holdings, [name for name in PARTIES if name != TWO])
    assert named(trial) == [TWO]
    trial, _ = attacked(change("Join", TWO, respondents=respondents), LITERAL)
    assert "invalid number of respondents from party-2" in str(trial.failure)


def test_shares_of_another_secret_than_committed_to_give_no_sum() -> None:
    trial, _ = attacked(change("Deal", TWO, whole=flipped()))
    says = "the secret that opens party-2's masks is not what it committed to"
    assert says in str(trial.failure)


def test_too_many_boxes_that_do_not_open_are_refused() -> None:
    """Two of seven may be missing. With a third a party no longer knows who is there at all."""

    def rewrite(item: Envelope, message: Message) -> Message | None:
        corrupt = item.sender in PARTIES[:3]
        return change("Deal", boxes=lambda old: old ^ 1)(item, message) if corrupt else None

    trial, _ = attacked(rewrite)
    assert isinstance(trial.failure, QuorumError)
    for honest in PARTIES[3:]:
        says = "Dealt.boxes: invalid shares from party-"
        assert says in trial.refusals()[honest]
        assert trial.messages("Upload", honest) == []


@pytest.mark.parametrize("later", [False, True], ids=["at first", "later"])
def test_neighbours_whose_boxes_do_not_open_do_not_count(later: bool) -> None:
    """Five good neighbours are needed. Two bad boxes are borne with, but stand for nobody."""

    def spoilt(old: Any) -> Any:
        old[:2] ^= 1
        return old

    def few(old: Any) -> Any:
        # Two bad ones and four good ones are left.
        old[6:] = 0
        return old

    last: list[str] = []

    def rewrite(item: Envelope, message: Message) -> Message | None:
        if item.recipient != TWO:
            return None
        if isinstance(message, Graph):
            last.append(message.names[6])
        if later and isinstance(message, Survivors):
            return surviving([name not in last for name in PARTIES])
        return by(item, message)

    fields = {"boxes": spoilt} if later else {"boxes": spoilt, "dealt": few}
    by = change("Dealt", None, TWO, **fields)
    trial, _ = attacked(rewrite)
    says = (
        "parties that are missing or cannot be checked: 3, expected at most 2"
        if later
        else "Dealt.boxes: invalid shares from party-"
    )
    assert says in trial.refusals()[TWO]
    assert trial.messages("Unmask", TWO) == []
    assert len(trial.messages("Upload", TWO)) == later


def test_counts_that_are_none_give_no_sum() -> None:
    trial, _ = attacked(change("Upload", TWO, values=row(1, 3)))
    assert "the totals are not counts of 8 respondents" in str(trial.failure)
    assert trial.messages("Tally") == []


@pytest.mark.slow
def test_what_no_check_sees_counts_that_are_false_but_add_up() -> None:
    """Nobody else knows a party's answers: it can lie about them, here by one respondent."""
    trial, _ = attacked(change("Upload", TWO, values=moved))
    assert trial.failure is None
    assert named(trial) == []
    honest, _ = attacked(lambda item, message: None)
    difference = trial.published.totals.astype(int) - honest.published.totals.astype(int)
    assert difference.tolist() == [-1, 1, 0, 0, 0]


@pytest.mark.parametrize("respondents", [3, 255, 300, 2**32])
def test_a_modulus_that_does_not_fit_is_refused(respondents: int) -> None:
    by = change("Graph", respondents=respondents)
    # Among two parties there is one order of neighbours, so that only the number is wrong.
    trial, _ = attacked(by, msgspec.structs.replace(LITERAL, corrupt=0.0), parties=2)
    assert set(trial.refusals()) == set(PARTIES[:2])
    for why in trial.refusals().values():
        assert "respondents, at most " in why


@pytest.mark.slow
def test_an_upload_that_is_changed_on_its_way_is_not_signed_for() -> None:
    """The total is another, and nobody refuses; but the party's head is over what it has sent."""
    trial, _ = attacked(change("Upload", TWO, values=moved))
    assert trial.failure is None
    assert set(verify(trial.content).signed_by) == set(PARTIES) - {TWO}
    honest, _ = attacked(lambda item, message: None)
    assert set(verify(honest.content).signed_by) == set(PARTIES)
