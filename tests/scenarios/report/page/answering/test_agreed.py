"""The page answers what was agreed and is asked of it, and refuses all else."""

from __future__ import annotations

import functools
import json
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from protocol import AGGREGATOR, KeepUniform, PartyId
from protocol.messages import Envelope
from protocol.session.charter import Charter
from protocol.session.roster import Identity
from protocol.transcript.checkpoints import sign_checkpoint
from protocol.variants import InpPS, RRIndependent
from protocol.variants.reports.reports import Ask
from protocol.wire.arrays import encode_message
from protocol.wire.codec import encode_envelope
from tests.every_variant import examples
from tests.tiers import slow
from tests.vectors.pages.making import Given, Survey, begun, posted, seed_of, url64
from tests.vectors.pages.settings import Case, settings, survey_of
from tests.verifier.bundles import needs_node, run

pytestmark = needs_node
HERE = Path(__file__).parent

VARIANT = RRIndependent.with_keep(survey_of(2, 3, 5), 0.6)
ANSWERED = {case.variant.name for case in settings()}


@functools.cache
def survey(attempt: int = 1) -> Survey:
    return begun(Case("agreed", VARIANT, 1, attempt=attempt))


def given(
    *,
    link: str | None = None,
    of: Survey | None = None,
    terms: dict[int, Any] | None = None,
    place: dict[int, Any] | None = None,
) -> tuple[str, bytes, bytes]:
    """Input of a page, with some fields of the two responses changed."""
    about = of or survey()
    first, second = msgspec.msgpack.decode(about.terms), msgspec.msgpack.decode(about.place)
    for values, changes in ((first, terms), (second, place)):
        for at, value in (changes or {}).items():
            values[at] = value
    encode = msgspec.msgpack.encode
    return link or about.link, encode(first), encode(second)


def asked(of: Survey | None = None, **changes: Any) -> tuple[str, bytes, bytes]:
    """A changed question."""
    question = msgspec.structs.replace((of or survey()).question, **changes)
    return given(of=of, place={4: encode_envelope(question)})


def with_threshold(change: int) -> bytes:
    """The body of a question with another randomizer."""
    first, *others = VARIANT.blocks
    keep = first.randomizer
    assert isinstance(keep, KeepUniform)
    other = KeepUniform(keep.size, keep.threshold + change)
    blocks = (msgspec.structs.replace(first, randomizer=other), *others)
    return encode_message(Ask(VARIANT.survey.digest, blocks))


def linked(party: str | None = None, seed: bytes | None = None, id_: bytes | None = None) -> str:
    """Another link."""
    own, secret, about = survey().link.split(".")
    return ".".join(
        (
            own if party is None else party,
            secret if seed is None else url64(seed),
            about if id_ is None else url64(id_),
        )
    )


def replaced(content: bytes, old: bytes, new: bytes) -> bytes:
    assert content.count(old) >= 1
    return content.replace(old, new, 1)


def other_member() -> int:
    place = msgspec.msgpack.decode(survey().place)[0]
    return next(at for at in range(1, len(survey().charter.roster)) if at != place)


def note(attempt: int, signer: Identity | None = None) -> str:
    charter = survey(2).charter.again(attempt)
    signer = signer or survey().identities[AGGREGATOR]
    return sign_checkpoint(signer, session=charter.session, size=3, root=bytes(32)).note


def encoded_terms() -> bytes:
    return bytes(msgspec.msgpack.decode(survey().terms)[0])


ROSTER = survey().charter.roster
STRANGER = Identity(PartyId("p-009"), seed_of("stranger"))
OWN_KEY = ROSTER.key(survey().party)
QUESTION = survey().question
RIGHT: dict[str, Callable[[], tuple[str, bytes, bytes]]] = {
    "first attempt": given,
    "first attempt with its checkpoint": lambda: given(terms={4: note(1)}),
    "second attempt": lambda: given(of=survey(2)),
    "with a hash sign": lambda: given(link="#" + survey().link),
    "a later question": lambda: asked(seq=QUESTION.seq + 5),
}
WRONG: dict[str, tuple[str, Callable[[], tuple[str, bytes, bytes]]]] = {
    "no link": ("link", lambda: given(link="p-001")),
    "half a link": ("link", lambda: given(link=survey().link[:-3])),
    "a link with something behind it": ("link", lambda: given(link=survey().link + ".a")),
    "a link's last letter": ("link", lambda: given(link=survey().link[:-1] + "_")),
    "a link of the aggregator": ("link", lambda: given(link=linked(party="aggregator"))),
    "a link without a name": ("link", lambda: given(link=linked(party=""))),
    "a short key": ("link", lambda: given(link=linked(seed=bytes(31)))),
    "another key": ("place", lambda: given(link=linked(seed=seed_of("stranger")))),
    "another name": ("place", lambda: given(link=linked(party="p-999"))),
    "another survey": ("survey", lambda: given(link=linked(id_=bytes(32)))),
    "the second attempt's id": (
        "survey",
        lambda: given(link=linked(id_=survey(2).charter.session)),
    ),
    "a letter of the terms": (
        "survey",
        lambda: given(terms={0: replaced(encoded_terms(), b"Town", b"Toon")}),
    ),
    "a threshold of the terms": (
        "survey",
        lambda: given(terms={0: replaced(encoded_terms(), b"\xcf\x99", b"\xcf\x98")}),
    ),
    "another roster": ("survey", lambda: given(terms={2: bytes(32)})),
    "one more member": ("survey", lambda: given(terms={3: len(ROSTER) + 1})),
    "another attempt": ("checkpoint", lambda: given(terms={1: 2})),
    "another attempt with the first one's checkpoint": (
        "checkpoint",
        lambda: given(terms={1: 2, 4: note(1)}),
    ),
    "another attempt with a checkpoint of its own": (
        "question",
        lambda: given(terms={1: 2, 4: note(2)}),
    ),
    "a checkpoint by a stranger": (
        "checkpoint",
        lambda: given(of=survey(2), terms={4: note(2, STRANGER)}),
    ),
    "a checkpoint by the party": (
        "checkpoint",
        lambda: given(of=survey(2), terms={4: note(2, survey().identities[survey().party])}),
    ),
    "a broken checkpoint": (
        "checkpoint",
        lambda: given(of=survey(2), terms={4: note(2).replace("\n3\n", "\n4\n")}),
    ),
    "no checkpoint at all": ("checkpoint", lambda: given(of=survey(2), terms={4: "none"})),
    "attempt 0": ("malformed", lambda: given(terms={1: 0})),
    "attempt 101": ("malformed", lambda: given(terms={1: 101})),
    "another place": ("place", lambda: given(place={0: other_member()})),
    "another place's proof": (
        "place",
        lambda: given(place={1: ROSTER.inclusion_path_at(other_member())}),
    ),
    "another place and its proof": (
        "place",
        lambda: given(place={0: other_member(), 1: ROSTER.inclusion_path_at(other_member())}),
    ),
    "the aggregator's place": (
        "place",
        lambda: given(place={0: 0, 1: ROSTER.inclusion_path_at(0)}),
    ),
    "a place beyond the roster": ("place", lambda: given(place={0: len(ROSTER)})),
    "another aggregator": ("place", lambda: given(place={2: STRANGER.public})),
    "the party as the aggregator": ("place", lambda: given(place={2: OWN_KEY})),
    "no proof of the aggregator": ("place", lambda: given(place={3: ()})),
    "a milder question": ("question", lambda: asked(body=with_threshold(-1))),
    "a stronger question": ("question", lambda: asked(body=with_threshold(1))),
    "a question about another survey": (
        "question",
        lambda: asked(body=encode_message(Ask(bytes(32), VARIANT.blocks))),
    ),
    "a question with fewer blocks": (
        "question",
        lambda: asked(body=encode_message(Ask(VARIANT.survey.digest, VARIANT.blocks[:2]))),
    ),
    "a question with more in it": ("question", lambda: asked(body=QUESTION.body + b"\xc0")),
    "a question of another kind": ("question", lambda: asked(kind="Request")),
    "a question from somebody else": ("question", lambda: asked(sender=PartyId("p-001"))),
    "a question to somebody else": ("question", lambda: asked(recipient=PartyId("p-999"))),
    "a question of another session": ("question", lambda: asked(session=bytes(32))),
    "a question of another attempt": (
        "question",
        lambda: given(place={4: encode_envelope(survey(2).question)}),
    ),
    "a question with a negative number": ("question", lambda: asked(seq=-1)),
    "a question in other bytes": (
        "malformed",
        lambda: given(place={4: replaced(encode_envelope(QUESTION), b"\xa3Ask", b"\xd9\x03Ask")}),
    ),
    "a question with a field more": (
        "question",
        lambda: given(
            place={4: msgspec.msgpack.encode((*msgspec.structs.astuple(QUESTION), None))}
        ),
    ),
    "no question": ("malformed", lambda: given(place={4: b""})),
    "empty responses": ("malformed", lambda: (survey().link, b"", b"")),
    "terms in other bytes": ("malformed", lambda: (*given()[:1], given()[1] + b"\xc0", given()[2])),
    "an own variant": (
        "variant",
        lambda: given(of=begun_with(code=bytes(32))),
    ),
}


def begun_with(**changes: Any) -> Survey:
    """The survey with other terms; its roster stays."""
    charter: Charter = msgspec.structs.replace(survey().charter, **changes)
    question = msgspec.structs.replace(survey().question, session=charter.session)
    return survey()._replace(charter=charter, question=question)


JUDGING = (HERE / "judging.js").read_text(encoding="utf-8")


def judged(cases: Sequence[tuple[str, bytes, bytes]]) -> list[str]:
    """Why the page refuses each; "agreed" if it does not."""
    given = [(link, terms.hex(), place.hex()) for link, terms, place in cases]
    said: list[str] = json.loads(run(JUDGING, json.dumps(given).encode()))
    return said


def test_what_was_agreed_is_accepted() -> None:
    assert judged([make() for make in RIGHT.values()]) == ["agreed"] * len(RIGHT)


def test_all_that_was_altered_is_refused() -> None:
    found = judged([make() for _, make in WRONG.values()])
    assert dict(zip(WRONG, found, strict=True)) == {name: why for name, (why, _) in WRONG.items()}


@pytest.mark.parametrize("step", [5, slow(1)])
def test_no_byte_of_the_responses_can_be_changed(step: int) -> None:
    """Of the checkpoint of a first attempt nothing is needed, and the question's number is free."""
    link, terms, place = given()
    cases = []
    for at in range(0, len(terms), 7 * step):
        cases.append((link, flipped(terms, at), place))
    for at in range(0, len(place), step):
        cases.append((link, terms, flipped(place, at)))
    agreed = [case for case, why in zip(cases, judged(cases), strict=True) if why == "agreed"]
    number = place.index(QUESTION.recipient.encode() + struct.pack("B", QUESTION.seq))
    at = number + len(QUESTION.recipient)
    assert [case for case in agreed if case[2] != flipped(place, at)] == []


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def test_variants_of_several_rounds_are_refused() -> None:
    others = [example.variant for example in examples() if example.variant.name not in ANSWERED]
    assert {variant.name for variant in others} > {"rrba", "secure-sum", "privkvm"}
    cases = [given(of=begun_with(variant=variant)) for variant in others]
    assert set(judged(cases)) == {"variant"}
    answered = [example for example in examples() if example.variant.name in ANSWERED]
    cases = [given(of=begun(Case(one.name, one.variant, 1))) for one in answered]
    assert set(judged(cases)) == {"agreed"}


SPEAKING = (HERE / "speaking.js").read_text(encoding="utf-8")


def spoken(of: Survey | None = None) -> dict[str, Any]:
    link, terms, place = given(of=of)
    said: dict[str, Any] = json.loads(
        run(SPEAKING, json.dumps([link, terms.hex(), place.hex()]).encode())
    )
    return said


def test_declining_and_asking_for_the_state() -> None:
    said = spoken()
    party = survey().party
    identity = survey().identities[party]
    machine = survey().machine(Given([], "x"), [0, 0, 0], budget=0.0)
    refused, head = machine.take()
    assert (refused.kind, head.kind) == ("Declined", "Head")
    assert said["declined"] == posted([refused, head]).hex()
    statement = b"sottovoce state 1\0" + msgspec.msgpack.encode(
        (survey().charter.session, str(party))
    )
    assert said["state"] == msgspec.msgpack.encode((party, identity.sign(statement))).hex()


def test_codes_are_checked_and_words_are_the_browsers() -> None:
    said = spoken()
    assert said["refusals"] == ["TypeError"] * 6
    bits = begun(Case("bits", InpPS(survey=survey_of(2, 3, 5), epsilon=1.0, k=3), 1))
    assert spoken(bits)["refusals"] == ["TypeError"] * 6
    assert (said["words"], said["most"]) == (100, True)
    answer, _ = (
        msgspec.msgpack.decode(each, type=Envelope)
        for each in msgspec.msgpack.decode(bytes.fromhex(said["body"]))
    )
    report = survey().charter.codec.decode(answer.kind, answer.body)
    assert report.kind() == "Report"
