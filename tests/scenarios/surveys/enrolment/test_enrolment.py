"""``invite``, ``join``, ``admit``, ``seal`` and ``accept``: parties make their own keys."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.x509 import load_pem_x509_certificate

from parties.keeping import writing
from protocol import PartyId, SecureSum
from protocol.session.roster import Identity, Roster
from scenarios.cli.surveys.holding import aggregate
from scenarios.surveys.enrolment import joining
from scenarios.surveys.enrolment.agreed import CharterFile
from scenarios.surveys.enrolment.folders import member_files, new_authority
from scenarios.surveys.enrolment.letters import (
    MOST_CLAIMS,
    Admission,
    Invitation,
    Refusal,
    Request,
    encode_letter,
)
from scenarios.surveys.enrolment.organising import seal
from scenarios.surveys.members import read_member
from scenarios.wording.withstanding import conspiracy_sentences
from tests.scenarios.command import Said, complaint, sottovoce
from tests.scenarios.programs import Program
from tests.scenarios.survey_folders import (
    ANALYSIS,
    COINS,
    PLAN,
    PLANS,
    RECORDS,
    ROWS,
    aggregating,
    plan_file,
    table,
)
from transports.testing import HANGS

WHO = ("anna", "bert", "carl")


def invited(folder: Path, plan: str = PLAN, *, parties: tuple[str, ...] = WHO) -> Path:
    """An organiser's folder with an invitation for everybody."""
    named = [option for name in parties for option in ("--party", name)]
    out = folder / "organiser"
    said = sottovoce("invite", plan_file(folder, plan), *named, "--out", out)
    assert said.code == 0, said.err
    return out


def invitation(organiser: Path, name: str) -> Path:
    return organiser / "invitations" / f"{name}.json"


def joined(organiser: Path, name: str, folder: Path) -> Path:
    """The request of a party that has made its keys in this folder."""
    said = sottovoce("join", invitation(organiser, name), "--out", folder)
    assert said.code == 0, said.err
    return folder / "request.json"


def admission(organiser: Path, name: str) -> Path:
    return organiser / "sealed" / "admissions" / f"{name}.json"


def sealed(folder: Path, *names: str) -> Path:
    """An organiser's folder after these have joined, each in a folder named after it."""
    organiser = invited(folder)
    requests = [joined(organiser, name, folder / name) for name in names or WHO]
    assert sottovoce("admit", organiser, *requests).code == 0
    assert sottovoce("seal", organiser).code == 0
    return organiser


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sealed survey of all three, and their folders, not accepted."""
    folder = tmp_path_factory.mktemp("enrolment")
    sealed(folder)
    return folder


def test_who_takes_part_in_a_sum_learns_how_many_may_conspire(tmp_path: Path) -> None:
    organiser = invited(tmp_path, PLANS["secure-sum"].replace("quorum = 4", "quorum = 2"))
    by_size = (
        "It depends on how many take part: 4 of 6 parties may conspire with the aggregator or any "
        "reader of the record, "
        "9 of 12, 39 of 50, 199 of 250. Below 10 parties nobody may be missing: one sleeping party "
        "ends the attempt."
    )
    for name in WHO:
        said = sottovoce("join", invitation(organiser, name), "--out", tmp_path / name)
        assert by_size in said.out
        assert sottovoce("admit", organiser, tmp_path / name / "request.json").code == 0
    assert sottovoce("seal", organiser).code == 0
    said = sottovoce("accept", tmp_path / WHO[0], admission(organiser, WHO[0]))
    assert said.out.splitlines()[1:3] == list(conspiracy_sentences(SecureSum().withstands(3)))


def test_who_takes_part_in_a_sum_with_coins_learns_both_figures(tmp_path: Path) -> None:
    organiser = invited(tmp_path, COINS)
    for name in WHO:
        said = sottovoce("join", invitation(organiser, name), "--out", tmp_path / name)
        assert "Whoever conspires: no bound; at delta 1e-06 it depends on how many" in said.out
        assert sottovoce("admit", organiser, tmp_path / name / "request.json").code == 0
    assert sottovoce("seal", organiser).code == 0
    said = sottovoce("accept", tmp_path / WHO[0], admission(organiser, WHO[0]))
    assert said.out.splitlines()[2:4] == [
        "Nobody may be missing: one sleeping party ends the attempt.",
        "Whoever conspires: no bound; (epsilon 0.575801, delta 1e-06) if at least 2 of those in "
        "the sum are honest.",
    ]


def copied(done: Path, folder: Path) -> Path:
    shutil.copytree(done, folder / "copy")
    return folder / "copy"


def letter(path: Path, kind: Any) -> Any:
    return msgspec.json.decode(path.read_bytes(), type=kind)


def test_parties_with_their_own_keys_hold_a_survey(tmp_path: Path) -> None:
    organiser = sealed(tmp_path)
    for name in WHO:
        said = sottovoce("accept", tmp_path / name, admission(organiser, name))
        assert said.out.startswith(f"admitted as {name}, in a survey of 3 parties\n"), said.err
        # Again changes nothing.
        assert sottovoce("accept", tmp_path / name, admission(organiser, name)) == said
    with aggregating(organiser / "sealed", tmp_path / "out") as (aggregator, where, _):
        answering = [
            Program(
                *("answer", tmp_path / name, "--connect", where),
                *("--records", table(tmp_path / f"{name}.csv", *ROWS)),
            )
            for name in WHO
        ]
        for answer in answering:
            said, complained = answer.communicate(timeout=HANGS)
            assert (said.partition("\n")[0], complained) == (
                "done; epsilon 2 spent per respondent",
                "",
            )
        text, complained = aggregator.communicate(timeout=HANGS)
        assert aggregator.returncode == 0, complained
    assert json.loads(text)["parties"] == 3
    record = tmp_path / "out" / "transcript.svt.zst"
    said = sottovoce("audit", record, "--member", organiser / "sealed" / "aggregator")
    assert said.code == 0, said.out


def test_the_organiser_holds_no_private_key_of_a_party(done: Path) -> None:
    secrets = [read_key(done / name) for name in WHO]
    for path in (done / "organiser").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not any(secret in content for secret in secrets), path
        assert path.stat().st_mode & 0o077 == 0, path
    # It is not in what the party hands over either.
    for name in WHO:
        assert read_key(done / name) not in (done / name / "request.json").read_bytes()


def read_key(folder: Path) -> bytes:
    """The line of a private key that holds the secret."""
    return (folder / "identity.key").read_bytes().splitlines()[1]


def test_a_party_is_shown_the_organisers_key(tmp_path: Path) -> None:
    organiser = invited(tmp_path, PLAN + ANALYSIS)
    said = sottovoce("join", invitation(organiser, "anna"), "--out", tmp_path / "anna")
    key = letter(invitation(organiser, "anna"), Invitation).organiser.hex()
    assert f"organiser  has the key {key}." in said.out.splitlines()
    assert sottovoce("join", invitation(organiser, "anna"), "--out", tmp_path / "anna") == said


def test_the_roster_is_who_was_admitted_in_the_order_of_the_invitations(tmp_path: Path) -> None:
    organiser = invited(tmp_path)
    for name in ("carl", "anna"):
        request = joined(organiser, name, tmp_path / name)
        assert sottovoce("admit", organiser, request).code == 0
    said = sottovoce("seal", organiser)
    assert said.out.startswith("the roster is sealed, with 2 parties; its root is ")
    charter = read_member(organiser / "sealed" / "aggregator").charter
    assert charter.roster.parties == ("anna", "carl")
    assert charter.roster.root.hex() in said.out


def twice(folder: Path) -> tuple[Path, Said]:
    """A thief joins with anna's invitation, and then she does."""
    organiser = invited(folder)
    for name in WHO[1:]:
        assert sottovoce("admit", organiser, joined(organiser, name, folder / name)).code == 0
    assert sottovoce("admit", organiser, joined(organiser, "anna", folder / "thief")).code == 0
    request = joined(organiser, "anna", folder / "anna")
    return organiser, sottovoce("admit", organiser, request)


def key_of(folder: Path) -> str:
    found: Request = letter(folder / "request.json", Request)
    return found.key.hex()


def test_an_invitation_is_used_once_and_its_owner_learns_of_it(tmp_path: Path) -> None:
    organiser, said = twice(tmp_path)
    assert said.code == 1
    line, total = said.out.splitlines()
    assert "the invitation of 'anna' was used before, with another key" in line
    assert total == "0 admitted, 0 admitted before, 1 refused; in all 3 of 3 who are invited"
    [refusal] = (organiser / "refusals").iterdir()
    assert str(refusal) in line
    told = sottovoce("accept", tmp_path / "anna", refusal)
    assert told.code == 1
    assert told.out.startswith(
        "refused: somebody else used your invitation before you, with the key "
        f"{key_of(tmp_path / 'thief')}\n"
    )
    # Asking again adds nothing.
    assert sottovoce("admit", organiser, tmp_path / "anna" / "request.json").out == said.out
    # The one who was first learns of it as well, and nobody on the way can keep it from her.
    assert sottovoce("seal", organiser).code == 0
    quiet = tmp_path / "quiet.json"
    true: Admission = letter(admission(organiser, "anna"), Admission)
    assert [each.key.hex() for each in true.claims] == [key_of(tmp_path / "anna")]
    quiet.write_bytes(encode_letter(msgspec.structs.replace(true, claims=())))
    said = sottovoce("accept", tmp_path / "thief", quiet)
    assert "it is not signed by the organiser" in complaint(said)
    told = sottovoce("accept", tmp_path / "thief", admission(organiser, "anna"))
    assert told.code == 0
    assert f"used your invitation too, with the key {key_of(tmp_path / 'anna')};" in told.out
    # The admission is for the key that came first, not for hers.
    said = sottovoce("accept", tmp_path / "anna", admission(organiser, "anna"))
    assert "'anna' at place 1 are not proved to be on the roster" in complaint(said)


def test_a_refusal_proves_itself(tmp_path: Path) -> None:
    organiser, _ = twice(tmp_path)
    [path] = (organiser / "refusals").iterdir()
    true: Refusal = letter(path, Refusal)
    other = Identity(PartyId("anna"), os.urandom(32))
    stranger = Invitation(
        true.first.party,
        letter(invitation(organiser, "anna"), Invitation).organiser,
        os.urandom(32),
        letter(invitation(organiser, "anna"), Invitation).agreed,
    )
    for forged, says in (
        (Refusal(true.refused, true.refused), "does not refuse the request in this folder"),
        (Refusal(true.refused, true.first), "does not refuse the request in this folder"),
        (
            Refusal(msgspec.structs.replace(true.first, key=other.public), true.refused),
            "it is not signed by the invitation of 'anna'",
        ),
        (Refusal(stranger.request(other), true.refused), "it is not signed by the invitation"),
    ):
        path.write_bytes(encode_letter(forged))
        assert says in complaint(sottovoce("accept", tmp_path / "anna", path))


def test_a_new_invitation_makes_the_one_before_void(tmp_path: Path) -> None:
    organiser, _ = twice(tmp_path)
    old = invitation(organiser, "anna").read_bytes()
    said = sottovoce("invite", organiser, "--again", "anna")
    assert said.code == 0, said.err
    assert invitation(organiser, "anna").read_bytes() != old
    request = joined(organiser, "anna", tmp_path / "again")
    stolen = sottovoce("admit", organiser, tmp_path / "thief" / "request.json")
    assert "it is not signed by the invitation of 'anna'" in stolen.out
    said = sottovoce("admit", organiser, request)
    assert said.out == "1 admitted, 0 admitted before, 0 refused; in all 3 of 3 who are invited\n"
    assert sottovoce("seal", organiser).code == 0
    said = sottovoce("accept", tmp_path / "again", admission(organiser, "anna"))
    assert said.code == 0
    assert "used your invitation" not in said.out


def test_not_everything_that_a_used_invitation_asks_is_kept(tmp_path: Path) -> None:
    organiser = invited(tmp_path)
    paper = letter(invitation(organiser, "anna"), Invitation)
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    for number in range(MOST_CLAIMS + 4):
        request = paper.request(Identity(paper.party, bytes([number]) * 32))
        (inbox / f"{number}.json").write_bytes(encode_letter(request))
    for name in WHO[1:]:
        sottovoce("admit", organiser, joined(organiser, name, tmp_path / name))
    assert sottovoce("admit", organiser, inbox).code == 1
    assert sottovoce("admit", organiser, inbox).code == 1
    assert sottovoce("seal", organiser).code == 0
    assert len(letter(admission(organiser, "anna"), Admission).claims) == MOST_CLAIMS


def refused(organiser: Path, request: Path) -> str:
    """Why a request is refused; nothing else changes."""
    before = (organiser / "requests.jsonl").read_bytes()
    said = sottovoce("admit", organiser, request)
    assert (said.code, said.err) == (1, "")
    assert (organiser / "requests.jsonl").read_bytes() == before
    line, _ = said.out.splitlines()
    assert line.startswith(f"{request}: refused: ")
    return line


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"key": Identity(PartyId("x"), bytes(32)).public}, "not signed by the invitation"),
        ({"key": bytes(32)}, "not signed by the invitation"),
        ({"party": "bert"}, "it is not signed by the invitation of 'bert'"),
        ({"party": "dora"}, "'dora' was not invited"),
        ({"party": "aggregator"}, "'aggregator' was not invited"),
        ({"agreed": bytes(32)}, "it is for another survey"),
        ({"invited": bytes(64)}, "not signed by the invitation"),
        ({"signed": bytes(64)}, "it is not signed by the key that it asks for 'anna'"),
    ],
)
def test_an_overheard_request_cannot_be_changed(
    changes: dict[str, Any], says: str, tmp_path: Path
) -> None:
    organiser = invited(tmp_path)
    path = joined(organiser, "anna", tmp_path / "anna")
    true = path.read_bytes()
    path.write_bytes(encode_letter(msgspec.structs.replace(letter(path, Request), **changes)))
    assert says in refused(organiser, path)
    # Who overhears the true one can do nothing but hand it in.
    path.write_bytes(true)
    assert sottovoce("admit", organiser, path).code == 0


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda inv: inv.request(Identity(inv.party, b"\1" * 32)), "its key is that of 'bert'"),
        (lambda inv: inv.request(_Weak()), "is of low order or not canonical"),
    ],
)
def test_keys_that_no_roster_can_have(
    make: Callable[[Invitation], Request], says: str, tmp_path: Path
) -> None:
    organiser = invited(tmp_path)
    bert = letter(invitation(organiser, "bert"), Invitation)
    path = tmp_path / "request.json"
    path.write_bytes(encode_letter(bert.request(Identity(bert.party, b"\1" * 32))))
    assert sottovoce("admit", organiser, path).code == 0
    path.write_bytes(encode_letter(make(letter(invitation(organiser, "anna"), Invitation))))
    assert says in refused(organiser, path)


class _Weak(Identity):
    """With this key, anybody can sign."""

    def __init__(self) -> None:
        super().__init__(PartyId("anna"), bytes(32))

    @property
    def public(self) -> bytes:
        return b"\1" + bytes(31)


def test_a_request_for_another_survey(tmp_path: Path) -> None:
    organiser = invited(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    request = joined(invited(other), "anna", tmp_path / "anna")
    assert "it is for another survey" in refused(organiser, request)


GARBAGE = (b"", b"\0", b"{}", b"[" * 100_000, b"9" * 2_000_000, b'{"format":"sottovoce request 2"}')


@pytest.mark.parametrize("content", GARBAGE, ids=lambda content: repr(content[:30]))
def test_garbage_from_anybody(content: bytes, done: Path, tmp_path: Path) -> None:
    copy = copied(done, tmp_path)
    path = tmp_path / "garbage.json"
    path.write_bytes(content)
    assert str(path) in complaint(sottovoce("join", path, "--out", tmp_path / "x"))
    assert not (tmp_path / "x").exists()
    assert str(path) in complaint(sottovoce("accept", copy / "anna", path))
    shutil.rmtree(copy / "organiser" / "sealed")
    assert str(path) in refused(copy / "organiser", path)
    for kept in ("enrolment.json", "identity.key"):
        shutil.copy(path, copy / "organiser" / kept)
        assert str(copy) in complaint(sottovoce("seal", copy / "organiser"))


def test_what_is_not_a_file(tmp_path: Path) -> None:
    organiser = invited(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "is not a regular file" in refused(organiser, tmp_path / "pipe")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"organiser": "AAAA"}, "organiser: "),
        ({"more": 1}, "unknown field 'more'"),
        ({"format": "sottovoce request 1"}, "format"),
    ],
)
def test_an_invitation_that_cannot_be(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    path = invitation(invited(tmp_path), "anna")
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert says in complaint(sottovoce("join", path, "--out", tmp_path / "anna"))
    assert not (tmp_path / "anna").exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"parameters": {"more": 1}}, "unknown field 'more'"),
        ({"survey": {}}, "survey: 'title' is missing"),
        ({"analysis": {"tables": [["sex"]], "level": 0.9, "projection": "clip"}}, "'sex'"),
    ],
)
def test_an_invitation_to_what_cannot_be_asked(
    change: dict[str, Any], says: str, tmp_path: Path
) -> None:
    path = invitation(invited(tmp_path), "anna")
    said = json.loads(path.read_text())
    said["agreed"].update(change)
    path.write_text(json.dumps(said))
    assert says in complaint(sottovoce("join", path, "--out", tmp_path / "anna"))


def forged(done: Path, folder: Path, how: Callable[[Admission, Identity], Admission]) -> str:
    """Why an admission of anna that was changed, and signed anew by the organiser, is refused."""
    copy = copied(done, folder)
    path = admission(copy / "organiser", "anna")
    secret = read_member(copy / "organiser" / "sealed" / "aggregator").identity
    path.write_bytes(encode_letter(how(letter(path, Admission), secret)))
    said = complaint(sottovoce("accept", copy / "anna", path))
    assert not {"charter.json", "place.json"} & {each.name for each in (copy / "anna").iterdir()}
    assert not [each for each in (copy / "anna").iterdir() if each.name.startswith(".new.")]
    return said


def with_files(given: Admission, **files: str) -> Admission:
    return msgspec.structs.replace(given, files={**given.files, **files})


def edited(given: Admission, file: str, **changes: object) -> Admission:
    content = {**json.loads(given.files[file]), **changes}
    return with_files(given, **{file: json.dumps(content)})


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (lambda a, o: a.signed(Identity(o.name, bytes(32))), "is not signed by the organiser"),
        (
            lambda a, o: msgspec.structs.replace(a, signature=bytes(64)),
            "is not signed by the organiser",
        ),
        (lambda a, o: msgspec.structs.replace(a, party="bert"), "is not signed by the organiser"),
        (
            lambda a, o: msgspec.structs.replace(a, party="bert").signed(o),
            "it admits 'bert', not 'anna'",
        ),
        (
            lambda a, o: with_files(a, **{"identity.key": "x"}).signed(o),
            "expected authority.pem, certificate.pem, charter.json and place.json",
        ),
        (lambda a, o: with_files(a, **{"../x": "x"}).signed(o), "expected authority.pem"),
        (
            lambda a, o: edited(a, "charter.json", nonce="A" * 22 + "==").signed(o),
            "it is for something else than the invitation asked",
        ),
        (
            lambda a, o: edited(a, "charter.json", parameters={}).signed(o),
            "it is for something else than the invitation asked",
        ),
        (
            lambda a, o: edited(a, "charter.json", members=1000).signed(o),
            "it says of 3 parties how they came by their keys; expected 999",
        ),
        (
            lambda a, o: edited(
                a, "charter.json", members=1000, enrolled=[["request", 999]]
            ).signed(o),
            "not proved",
        ),
        (
            lambda a, o: edited(a, "charter.json", enrolled=[["folder", 1], ["request", 2]]).signed(
                o
            ),
            "it says that this party was handed its key, which the party has made",
        ),
        (lambda a, o: edited(a, "charter.json", roster="A" * 43 + "=").signed(o), "not proved"),
        (lambda a, o: edited(a, "place.json", place=2).signed(o), "not proved"),
        (lambda a, o: edited(a, "place.json", party="bert").signed(o), "not proved"),
        (
            lambda a, o: with_files(a, **{"certificate.pem": a.files["authority.pem"]}).signed(o),
            "do not belong together",
        ),
    ],
)
def test_an_admission_that_does_not_fit(
    how: Callable[[Admission, Identity], Admission], says: str, done: Path, tmp_path: Path
) -> None:
    assert says in forged(done, tmp_path, how)


def claimed(given: Admission, organiser: Identity) -> Admission:
    """With a claim that the invitation has not signed."""
    mallory = Identity(PartyId("anna"), os.urandom(32))
    agreed = msgspec.json.decode(given.files["charter.json"], type=CharterFile).agreed()
    stranger = Invitation(given.party, organiser.public, os.urandom(32), agreed)
    return msgspec.structs.replace(given, claims=(stranger.request(mallory),)).signed(organiser)


def led_by_another(given: Admission, organiser: Identity) -> Admission:
    """On a roster whose aggregator is not the organiser."""
    agreed = msgspec.json.decode(given.files["charter.json"], type=CharterFile).agreed()
    key = load_pem_x509_certificate(given.files["certificate.pem"].encode()).public_key()
    mallory = Identity(PartyId("aggregator"), os.urandom(32))
    members = ((mallory.name, mallory.public), (given.party, key.public_bytes_raw()))
    charter = CharterFile.of(agreed, roster := Roster(members), ("request", 1))
    files = dict(member_files(charter, roster, new_authority(1), whole_roster=False))
    texts = {name: content.decode() for name, content in files[given.party].items()}
    return msgspec.structs.replace(given, files=texts).signed(organiser)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (claimed, "a claim in it is not signed by the invitation"),
        (led_by_another, "its aggregator is not the organiser who sent the invitation"),
    ],
)
def test_an_organiser_who_signs_what_cannot_be(
    how: Callable[[Admission, Identity], Admission], says: str, done: Path, tmp_path: Path
) -> None:
    assert says in forged(done, tmp_path, how)


def test_the_admission_of_somebody_else(done: Path, tmp_path: Path) -> None:
    copy = copied(done, tmp_path)
    said = sottovoce("accept", copy / "anna", admission(copy / "organiser", "bert"))
    assert "it admits 'bert', not 'anna'" in complaint(said)
    other = tmp_path / "other"
    other.mkdir()
    said = sottovoce("accept", copy / "anna", admission(sealed(other), "anna"))
    assert "is not signed by the organiser who sent the invitation" in complaint(said)


def test_two_rosters_of_one_organiser_are_seen(done: Path, tmp_path: Path) -> None:
    copy = copied(done, tmp_path)
    first = admission(copy / "organiser", "anna").read_bytes()
    assert sottovoce("accept", copy / "anna", admission(copy / "organiser", "anna")).code == 0
    before = {each: each.read_bytes() for each in (copy / "anna").iterdir()}
    # The organiser seals again, without carl.
    shutil.rmtree(copy / "organiser" / "sealed")
    requests = (copy / "organiser" / "requests.jsonl").read_bytes().splitlines(keepends=True)
    (copy / "organiser" / "requests.jsonl").write_bytes(b"".join(requests[:2]))
    assert sottovoce("seal", copy / "organiser").code == 0
    assert admission(copy / "organiser", "anna").read_bytes() != first
    said = sottovoce("accept", copy / "anna", admission(copy / "organiser", "anna"))
    assert "was admitted before, with another" in complaint(said)
    assert {each: each.read_bytes() for each in (copy / "anna").iterdir()} == before


def test_a_crash_between_two_lines_admits_whole_requests_only(tmp_path: Path) -> None:
    organiser = invited(tmp_path)
    requests = [joined(organiser, name, tmp_path / name) for name in WHO]
    assert sottovoce("admit", organiser, *requests).code == 0
    log = organiser / "requests.jsonl"
    whole = log.read_bytes()
    cut = whole[: whole.index(b"\n", whole.index(b"\n") + 1) - 20]
    log.write_bytes(cut)
    said = sottovoce("admit", organiser, *requests)
    assert said.out == "2 admitted, 1 admitted before, 0 refused; in all 3 of 3 who are invited\n"
    assert log.read_bytes() == whole


@pytest.mark.parametrize("late", ["admit", "seal", "invite"])
def test_whoever_waits_for_a_seal_finds_the_roster_sealed(
    late: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    organiser = invited(tmp_path)
    requests = [joined(organiser, name, tmp_path / name) for name in WHO]
    assert sottovoce("admit", organiser, *requests[:2]).code == 0
    ours = writing.lock

    def last(*given: Any) -> None:
        """Another program seals just before this one has the lock."""
        monkeypatch.setattr(writing, "lock", ours)
        assert sottovoce("seal", organiser).code == 0
        ours(*given)

    monkeypatch.setattr(writing, "lock", last)
    options: dict[str, tuple[object, ...]] = {
        "admit": (requests[2],),
        "invite": ("--again", "carl"),
    }
    said = sottovoce(late, organiser, *options.get(late, ()))
    assert writing.lock is ours
    assert "the roster is sealed; nobody is admitted any more" in complaint(said)
    assert len((organiser / "requests.jsonl").read_bytes().splitlines()) == 2


def test_seal_prints_a_command_that_holds_the_survey(tmp_path: Path) -> None:
    (tmp_path / "our survey").mkdir()
    organiser = invited(tmp_path / "our survey")
    requests = [joined(organiser, name, tmp_path / name) for name in WHO]
    assert sottovoce("admit", organiser, *requests).code == 0
    [line] = [
        each
        for each in sottovoce("seal", organiser).out.splitlines()
        if each.startswith("hold the survey with")
    ]
    program, command, *arguments = shlex.split(line.partition(": ")[2])
    assert (program, command) == ("sottovoce", "aggregate")
    given = aggregate.make_context(command, arguments).params
    assert read_member(given["folder"]).identity.name == "aggregator"


def test_an_organiser_who_lost_the_requests_hears_so(tmp_path: Path) -> None:
    organiser = invited(tmp_path)
    (organiser / "requests.jsonl").unlink()
    assert "requests.jsonl: no such file" in complaint(sottovoce("seal", organiser))
    assert not (organiser / "requests.jsonl").exists()


class Killed(BaseException):
    """Stands for a signal that no program can catch."""


def test_a_seal_that_is_killed_leaves_no_key_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    organiser = invited(tmp_path)
    request = [joined(organiser, name, tmp_path / name) for name in WHO]
    assert sottovoce("admit", organiser, *request).code == 0

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", killed)
        patched.setattr(shutil, "rmtree", lambda *_, **__: None)
        with pytest.raises(Killed):
            seal(organiser, None, days=3)
    secret = read_key(organiser)
    left = [each for each in organiser.glob(".new.*/**/*") if each.is_file()]
    assert any(secret in each.read_bytes() for each in left)
    (organiser / ".new.txt").write_text("not ours")
    assert sottovoce("admit", organiser, *request).code == 0
    assert [each.name for each in organiser.glob(".new.*")] == [".new.txt"]
    assert sottovoce("seal", organiser).code == 0


def test_a_key_is_never_copied_to_be_checked(
    done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = copied(done, tmp_path)
    anna, aside, secrets = copy / "anna", tmp_path / "aside", []
    aside.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(aside))
    check = joining.tls_context

    def checked(*given: Any, **options: Any) -> object:
        files = [each for each in tmp_path.rglob("*") if each.is_file()]
        assert [each for each in files if each.is_relative_to(aside)]
        secrets.extend(each for each in files if read_key(anna) in each.read_bytes())
        return check(*given, **options)

    monkeypatch.setattr(joining, "tls_context", checked)
    assert sottovoce("accept", anna, admission(copy / "organiser", "anna")).code == 0
    assert secrets == [anna / "identity.key"]
    assert not list(aside.iterdir())


def test_a_party_has_its_key_on_disk_before_its_folder_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, synced, missing = invitation(invited(tmp_path), "anna"), set(), []
    sync, rename = os.fsync, os.rename

    def noted(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        sync(descriptor)

    def renamed(old: Path, new: Path) -> None:
        if new == tmp_path / "anna":
            parts = [old, *old.iterdir()]
            assert {"identity.key", "request.json"} < {each.name for each in parts}
            missing.append([each for each in parts if each.stat().st_ino not in synced])
        rename(old, new)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(os, "rename", renamed)
    assert sottovoce("join", path, "--out", tmp_path / "anna").code == 0
    assert missing == [[]]
    assert tmp_path.stat().st_ino in synced


def test_many_share_their_syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    for name in ("fsync", "sync"):
        call = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *given, call=call, name=name: (synced.append(name), call(*given))
        )
    counts = []
    for parties in (10, 60):
        synced.clear()
        organiser, inbox = tmp_path / f"{parties}", tmp_path / f"{parties}-inbox"
        inbox.mkdir()
        sottovoce("invite", plan_file(tmp_path), "--count", parties, "--out", organiser)
        for path in (organiser / "invitations").iterdir():
            paper = letter(path, Invitation)
            (inbox / path.name).write_bytes(
                encode_letter(paper.request(Identity(paper.party, os.urandom(32))))
            )
        said = sottovoce("admit", organiser, inbox)
        assert said.out.startswith(f"{parties} admitted, 0 admitted before, 0 refused;")
        assert sottovoce("seal", organiser).code == 0
        assert len(list((organiser / "sealed" / "admissions").iterdir())) == parties
        counts.append(len(synced))
    assert 0 < counts[0] == counts[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["secure-sum", "rr-joint"])
def test_five_enrol_and_hold_a_survey_all_by_commands(name: str, tmp_path: Path) -> None:
    """Every step is a process of its own; parties and organiser share nothing but files."""

    def ran(*arguments: object) -> str:
        program = Program(*arguments)
        said, complained = program.communicate(timeout=HANGS)
        assert program.returncode == 0, complained
        return said

    organiser, inbox = tmp_path / "organiser", tmp_path / "inbox"
    inbox.mkdir()
    ran("invite", plan_file(tmp_path, PLANS[name]), "--count", 5, "--out", organiser)
    parties = [f"party-{number}" for number in range(1, 6)]
    for party in parties:
        ran("join", invitation(organiser, party), "--out", tmp_path / party)
        shutil.copy(tmp_path / party / "request.json", inbox / f"{party}.json")
    shutil.rmtree(organiser / "invitations")
    ran("admit", organiser, inbox)
    ran("seal", organiser)
    for party in parties:
        ran("accept", tmp_path / party, admission(organiser, party))
        assert "ready\n" in ran("preflight", tmp_path / party)
    header, *rows = RECORDS[name].splitlines()
    with aggregating(organiser / "sealed", tmp_path / "out") as (aggregator, where, _):
        answering = []
        for party, row in zip(parties, rows, strict=False):
            records = tmp_path / f"{party}.csv"
            records.write_text(f"{header}\n{row}\n")
            connect = ("--connect", where, "--records", records)
            answering.append(Program("answer", tmp_path / party, *connect))
        for program in answering:
            said, complained = program.communicate(timeout=HANGS)
            assert program.returncode == 0, complained
            assert said.startswith("done; ")
        text, complained = aggregator.communicate(timeout=HANGS)
        assert aggregator.returncode == 0, complained
    assert json.loads(text)["parties"] == 5
    record = tmp_path / "out" / "transcript.svt.zst"
    audited = json.loads(
        ran("audit", record, "--member", organiser / "sealed" / "aggregator", "--json")
    )
    assert audited["verdict"] == "sound"


def test_what_is_wrong_with_a_letter_is_said_in_one_line_of_bounded_length(tmp_path: Path) -> None:
    letter = invitation(invited(tmp_path), "anna")
    content = json.loads(letter.read_text())
    letter.write_text(json.dumps({**content, "format": "x" * 100_000}))
    assert len(complaint(sottovoce("join", letter, "--out", tmp_path / "anna"))) < 1000
    assert not (tmp_path / "anna").exists()
