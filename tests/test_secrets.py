"""Nothing that holds a share, a mask, a key, a seed or a true answer shows it."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import parties
import protocol.sharing
from parties.keeping.attempts import Allowance, OpenAnswers
from parties.keeping.lines import Lines
from parties.keeping.members import Member
from parties.keeping.paying.payers import Payers
from parties.keeping.paying.payments import People, Release, Told
from parties.keeping.paying.people import Register, Spellings
from parties.keeping.paying.questions import Question
from parties.keeping.remembered import Memory
from parties.keeping.repeating import Given
from parties.keeping.writing import GrowingFile
from protocol import (
    AGGREGATOR,
    Attribute,
    Me,
    Message,
    PartyId,
    Records,
    RemoteProtocolError,
    SecureSum,
    Stream,
    Survey,
    secret_of,
)
from protocol.accounting.spending import Cost
from protocol.audit.disclosure import Disclosure
from protocol.crypto.key_agreement import AgreementKey
from protocol.crypto.randomness import Streams
from protocol.crypto.sealing import Edge
from protocol.crypto.shamir import reconstruct, share
from protocol.session.machine import Machine
from protocol.session.roster import Identity
from protocol.sharing.dealing import Received
from protocol.sharing.meeting import Hood
from protocol.simulation.setting import make_setting
from protocol.variants import SecureSumVariant
from scenarios.surveys.answering import Sitting, _Attempt
from scenarios.surveys.enrolment.agreed import Agreed
from scenarios.surveys.enrolment.joining import Accepted, Joined
from scenarios.surveys.enrolment.letters import Invitation
from scenarios.surveys.enrolment.linking import Link

MODULES = (
    "protocol.crypto.randomness",
    "protocol.session.roster",
    "protocol.audit.disclosure",
    "protocol.simulation.setting",
    "protocol.surveys.records",
    "scenarios.surveys.answering",
    "scenarios.surveys.enrolment.agreed",
    "scenarios.surveys.enrolment.joining",
    "scenarios.surveys.enrolment.letters",
    "scenarios.surveys.enrolment.linking",
    "scenarios.surveys.enrolment.organising",
    "scenarios.surveys.members",
    "scenarios.surveys.survey_plan",
)

PUBLIC = {
    "Admission": "what a party needs for its folder",
    "Admitted": "how many were",
    "Agreed": "terms",
    "CharterFile": "a charter",
    "PlaceFile": "a place on the roster",
    "Places": "ids",
    "Refusal": "two requests",
    "Request": "a public key and signatures",
    "RosterFile": "names and public keys",
    "_Enrolment": "names and public keys",
    "Asked": "what a plan asks",
    "Bound": "a bound of the graph",
    "Degree": "how many neighbours there are",
    "Withstood": "how many may conspire",
    "_Law": "probabilities",
    "Delivered": "commitments, and who has dealt",
    "Excerpt": "names and public keys",
    "Key": "a key that a plan asks about",
    "Meeting": "what parties joined with, as the aggregator was told it",
    "Plan": "a survey's plan",
    "Questions": "what a plan asks, before its variant is read",
    "Roster": "names and public keys",
    "SecureSum": "parameters",
    "Shape": "sizes",
    "Signed": "what is on record, its signature and a public key",
    "Sum": "a total, as it is published",
    "Summed": "a total, as every party is told it",
    "_Planned": "a survey's plan",
    "HandedOut": "ids",
    "Withdrawal": "ids and a reason",
    "_Pool": "a folder and ids",
    "_Tail": "a law",
    "Answer": "epsilons",
    "Answered": "how an answer went, and what it cost",
    "Answering": "names of files, and what is demanded",
    "Allowance": "the most that an answer may cost",
    "Joined": "a hash",
    "Kept": "files of a receipt, and its word",
    "Noise": "of the charter",
    "Opened": "a hash",
    "Payment": "hashes and a cost",
    "Recalled": "hashes and a cost",
    "Release": "hashes",
    "Spent": "costs",
    "Taken": "a hash",
    "_There": "files of a receipt, and its word",
}
"""Classes of which everything is known to the aggregator anyway, as messages are, or is a hash or
the cost of an answer."""

MARK = 0xA7
SECRET = bytes([MARK]) * 32
ADDRESS = re.compile(r" object at 0x[0-9a-f]+>")


def modules() -> Iterator[ModuleType]:
    for package in (protocol.sharing, parties):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(found.name)
    yield from map(importlib.import_module, MODULES)


def classes() -> list[type]:
    """All classes with fields in the modules that handle secrets, but for public ones."""
    found = [
        cls
        for module in modules()
        for _, cls in inspect.getmembers(module, inspect.isclass)
        if cls.__module__ == module.__name__ and fields_of(cls) and not issubclass(cls, Message)
    ]
    return [cls for cls in found if cls.__name__ not in PUBLIC]


def fields_of(cls: Any) -> tuple[str, ...]:
    if issubclass(cls, msgspec.Struct):
        return tuple(cls.__struct_fields__)
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls))
    return tuple(getattr(cls, "_fields", ()))


def is_shown(text: str) -> bool:
    """Whether a text has the mark: as bytes are written, as numbers, or as hexadecimal digits.

    Addresses in memory do not count: their digits are chance, and now and then the mark's.
    """
    said = ADDRESS.sub("", text.lower())
    return any(sign in said for sign in ("\\xa7\\xa7", str(MARK), "a7a7"))


def assert_silent(made: object) -> None:
    for text in (repr(made), str(made), f"{made}", repr((made,)), repr({"it": made})):
        assert not is_shown(text), text


LETTERS = "bcdghjkmnpqrstvw"
CATEGORIES = tuple(first + second for first in LETTERS for second in LETTERS)
SURVEY = Survey("Marks", (Attribute(name="mark", categories=CATEGORIES),))
RECORDS = Records(SURVEY, np.full((2, 1), MARK, np.uint8))
SETTING = make_setting(
    SecureSumVariant(survey=SURVEY, sums=SecureSum(corrupt=0.0)), RECORDS, seed=MARK
)
ANNA, BERT = SETTING.charter.roster.parties
OCTETS = np.full((3, 2, 32), MARK, np.uint8)


def member_named(name: PartyId) -> Member:
    return Member(folder=Path("."), charter=SETTING.charter, identity=Identity(name, SECRET))


def invitation() -> Invitation:
    nothing: dict[str, object] = {}
    agreed = Agreed("x", None, nothing, nothing, None, bytes(16))
    return Invitation(ANNA, bytes(32), SECRET, agreed)


def hood() -> Hood:
    return Hood(
        me=ANNA,
        place=0,
        names=(BERT,),
        places=np.array([1]),
        there=np.array([True]),
        keys=OCTETS[0],
        joined=2,
        respondents=2,
        context=b"context",
        stream=Stream(SECRET),
    )


def machine() -> Machine:
    return Machine(
        SETTING.charter,
        ANNA,
        Stream(SECRET),
        records=SETTING.holdings[ANNA],
        identity=Identity(ANNA, SECRET),
    )


def memory() -> Memory:
    return Memory(GrowingFile(0, Path("heard")), SECRET)


def spellings() -> Spellings:
    return Spellings(*(np.full(2, MARK, np.uint64),) * 2)


def payers() -> Payers:
    return Payers((spellings(),))


def given() -> Given:
    return Given(
        release=Release(survey=bytes(32), session=bytes(16), party=ANNA, drawn=SECRET),
        masked=SECRET,
        place=0,
        asked=bytes(32),
        report=SECRET,
        epsilon=1.0,
    )


def attempt() -> _Attempt:
    release = Release(survey=bytes(32), session=bytes(32), party=ANNA, drawn=SECRET)
    return _Attempt(
        machine(),
        release,
        payers(),
        Allowance(1.0),
        memory(),
        memory(),
        print,
        print,
        given(),
        {0: SECRET},
    )


MADE: dict[str, Callable[[], object]] = {
    "Received": lambda: Received(*(np.ones(3, np.bool_),) * 2, OCTETS, OCTETS[:, :, :16]),
    "Hood": hood,
    "Disclosure": lambda: Disclosure(
        member=ANNA, stream=Stream(SECRET), identity=Identity(ANNA, SECRET), records=RECORDS
    ),
    "Setting": lambda: SETTING,
    "Records": lambda: RECORDS,
    "Invitation": invitation,
    "Link": lambda: Link(ANNA, f"https://a.org/#{ANNA}.{SECRET.hex()}.x", False),
    "Joined": lambda: Joined(invitation(), SETTING.charter.variant, Path("request")),
    "Accepted": lambda: Accepted(member_named(ANNA), ()),
    "Member": lambda: member_named(AGGREGATOR),
    "Edge": lambda: Edge(ANNA, BERT, SECRET),
    "Identity": lambda: Identity(ANNA, SECRET),
    "AgreementKey": lambda: AgreementKey(SECRET),
    "Stream": lambda: Stream(SECRET),
    "Streams": lambda: Streams(SECRET, bytes(16)),
    "Me": lambda: Me(
        ANNA,
        SETTING.charter.roster,
        Stream(SECRET),
        session=bytes(16),
        identity=Identity(ANNA, SECRET),
    ),
    "Machine": machine,
    "Memory": memory,
    "Payers": payers,
    "People": lambda: People(marks=SECRET, alike=SECRET),
    "Told": lambda: Told(one=True, marks=SECRET),
    "Spellings": spellings,
    "Register": lambda: Register(SECRET, [spellings()], [spellings().alike], [spellings().exact]),
    "Question": lambda: Question(["a", "A"], [Register(SECRET, [], [], [])], Path("purse")),
    "Given": given,
    "_Attempt": attempt,
    "Sitting": lambda: Sitting(
        member=member_named(ANNA),
        records=RECORDS,
        answers=OpenAnswers(Lines(GrowingFile(0, Path("attempts")), [])),
        purse=Path("purse"),
        payers=payers(),
        repeat=given(),
        withstand=0,
        honest=0,
        kept=ExitStack(),
        attempt=attempt(),
        paid=(Cost(1.0), SECRET),
    ),
}


def test_every_class_that_may_hold_a_secret_is_made_here() -> None:
    assert {cls.__name__ for cls in classes()} <= MADE.keys()


@pytest.mark.parametrize("name", MADE)
def test_what_holds_a_secret_does_not_show_it(name: str) -> None:
    assert_silent(MADE[name]())


def complaints() -> Iterator[str]:
    """What is said if secrets are of a wrong size, do not open, or are not taken."""
    octets = np.full(32, MARK, np.uint8)
    places = np.zeros((1, 2), np.int64)
    calls: tuple[Callable[[], object], ...] = (
        lambda: Stream(SECRET[1:]),
        lambda: Streams(SECRET[1:], bytes(16)),
        lambda: Streams(SECRET, SECRET[:15]),
        lambda: Identity(ANNA, SECRET[1:]),
        lambda: Identity(ANNA, SECRET).agree(bytes(32)),
        lambda: secret_of(-MARK // 1000),
        lambda: Edge(ANNA, BERT, SECRET).open("Deal", SECRET, salt=SECRET[:16]),
        lambda: share(octets, shares=3, threshold=4, stream=Stream(SECRET)),
        lambda: share(octets.reshape(2, 16), shares=3, threshold=2, stream=Stream(SECRET)),
        lambda: reconstruct(octets.reshape(1, 2, 16), places),
        lambda: Ed25519PrivateKey.from_private_bytes(SECRET[1:]),
    )
    for call in calls:
        with pytest.raises((ValueError, RemoteProtocolError)) as caught:
            call()
        yield f"{caught.value} {caught.value!r}"


def test_complaints_do_not_show_secrets() -> None:
    for text in complaints():
        assert not is_shown(text), text
