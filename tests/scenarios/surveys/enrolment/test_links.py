"""``links``: a link holds the key of a place, and nothing is made that nobody can answer."""

from __future__ import annotations

import base64
import datetime
import json
import shutil
import stat
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509

from parties.keeping.members import key_secret
from parties.keeping.places import linked, spares, unused_spares
from protocol import PartyId
from protocol.errors import UsageError
from protocol.session.roster import Identity, Roster
from protocol.transcript.checkpoints import log_origin
from scenarios import read_plan
from scenarios.running.making import ANSWERED_BY_PAGES
from scenarios.surveys.enrolment.agreed import CharterFile
from scenarios.surveys.enrolment.folders import member_files, new_authority
from scenarios.surveys.enrolment.linking import (
    Link,
    Places,
    address_of_page,
    make_links,
)
from scenarios.surveys.members import read_member
from tests.scenarios.command import complaint, sottovoce
from tests.scenarios.linked_surveys import URL, linked_plan, linking, written_links
from tests.scenarios.survey_folders import PLANS, plan_file
from transports.certificates import Authority


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten places, two spare ones, and a ward that has a folder."""
    return linking(tmp_path_factory.mktemp("links"), "--count", 10, "--spare", 2, "--party", "ward")


def unpacked(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def test_a_link_holds_the_key_of_its_place_and_the_survey(made: Path) -> None:
    charter = read_member(made / "aggregator").charter
    places = [f"p-{number:02}" for number in range(1, 13)]
    assert charter.roster.parties == (*places, "ward")
    assert charter.enrolled == (("link", 12), ("folder", 1))
    assert linked(charter) == tuple(places)
    rows = written_links(made)
    assert [row.place for row in rows] == places
    seeds = set()
    for row in rows:
        place, seed, survey = row.link.removeprefix(f"{URL}#").split(".")
        assert place == row.place
        assert "=" not in row.link
        assert Identity(PartyId(place), unpacked(seed)).public == charter.roster.key(place)
        assert unpacked(survey) == charter.survey_id
        seeds.add(seed)
    assert len(seeds) == 12


def test_spare_places_are_the_last_ones_and_the_aggregator_knows_them(made: Path) -> None:
    kept = spares(made / "aggregator")
    assert kept == unused_spares(made / "aggregator") == ("p-11", "p-12")
    assert [row.place for row in written_links(made) if row.spare == "yes"] == ["p-11", "p-12"]
    assert {row.spare for row in written_links(made)} == {"yes", "no"}


def test_all_is_private_and_there_is_nothing_else(made: Path) -> None:
    member = {"authority.pem", "certificate.pem", "charter.json", "identity.key"}
    found = {path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file()}
    assert found == {
        *(f"aggregator/{name}" for name in member | {"roster.json", "spares.json"}),
        *(f"parties/ward/{name}" for name in member | {"place.json"}),
        *("links/links.csv", "links/links.html"),
    }
    for path in (made, *made.rglob("*")):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


def test_who_has_a_folder_is_a_member_like_any_other(made: Path) -> None:
    ward, aggregator = (read_member(made / name) for name in ("parties/ward", "aggregator"))
    assert ward.identity.name == "ward"
    assert ward.charter.survey_id == aggregator.charter.survey_id
    for member in (made / "parties" / "ward", made / "aggregator"):
        assert sottovoce("preflight", member).out.endswith("\nready\n")


def test_it_says_what_a_witness_is_told(tmp_path: Path) -> None:
    plan, out = plan_file(tmp_path, linked_plan()), tmp_path / "out"
    options = ("--count", 5, "--spare", 1, "--party", "ward", "--url", URL, "--out", out)
    said = sottovoce("links", plan, *options)
    charter = read_member(out / "aggregator").charter
    origin = log_origin(charter.session, charter.roster.key("aggregator"))
    assert said.out.splitlines()[-1] == f"for a witness: --trust {origin}"


def test_places_with_names_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "names").write_text("anna\nbert\ncarl\ndora\n")
    out = linking(tmp_path, "--names", tmp_path / "names", "--spare", 1)
    assert [row.place for row in written_links(out)] == ["anna", "bert", "carl", "dora", "spare-1"]
    assert spares(out / "aggregator") == ("spare-1",)


def test_nobody_else_than_linked_places(tmp_path: Path) -> None:
    out = linking(tmp_path, "--count", 4)
    assert read_member(out / "aggregator").charter.enrolled == (("link", 4),)
    assert not (out / "parties").exists()
    assert spares(out / "aggregator") == ()


@pytest.mark.parametrize("name", PLANS)
def test_a_survey_that_pages_cannot_answer_has_no_links(name: str, tmp_path: Path) -> None:
    plan = read_plan(plan_file(tmp_path, linked_plan(name)))
    places = Places([f"p-{number}" for number in range(1, 7)])

    def make() -> object:
        return make_links(plan, places, tmp_path / "out", url=URL, page=lambda *_: "")

    if name in ANSWERED_BY_PAGES:
        make()
        assert read_member(tmp_path / "out" / "aggregator").charter.variant.name == name
    else:
        with pytest.raises(UsageError, match=f"'{name}': it asks in several rounds, and a page"):
            make()
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("options", "expected"), [((), 10 + 30), (("--days", 12), 12)])
def test_certificates_outlast_the_survey(
    options: tuple[object, ...], expected: int, tmp_path: Path
) -> None:
    out = linking(tmp_path, "--count", 4, *options)
    content = (out / "aggregator" / "certificate.pem").read_bytes()
    until = x509.load_pem_x509_certificate(content).not_valid_after_utc
    assert (until - datetime.datetime.now(datetime.UTC)).days + 1 == expected


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://survey.example.org", "https://survey.example.org/"),
        ("HTTPS://Survey.Example.org:8443/", "https://survey.example.org:8443/"),
        ("https://münchen.example/", "https://xn--mnchen-3ya.example/"),
        ("http://localhost:7080/", "http://localhost:7080/"),
        ("http://127.0.0.1:7080", "http://127.0.0.1:7080/"),
    ],
)
def test_the_address_of_a_page(url: str, address: str) -> None:
    assert address_of_page(url) == address


@pytest.mark.parametrize(
    "url",
    [
        *("", "survey.example.org", "https://", "https:///", "ftp://survey.example.org/"),
        *("http://survey.example.org/", "http://127.0.0.2:7080/", "http://localhost/"),
        *("http://localhost.example.org:80/", "https://a:b@survey.example.org/", "https://a b/"),
        *("https://survey.example.org/#", "https://survey.example.org/?", "https://a.org/#x"),
        *("https://a.org/?x=1", "https://a.org/page", "https://a.org\n/", "https://a.org:/"),
        *("https://a.org:99999/", "https://a..org/", 'https://a"b.org/', "https://[::1/"),
        *("https://a.org\\@b.org/", "javascript:alert(1)", "https://a.org/;x"),
    ],
)
def test_no_other_address_is_in_a_link(url: str) -> None:
    with pytest.raises(UsageError, match="--url"):
        address_of_page(url)


def test_nothing_is_left_of_links_that_were_not_all_written(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def full(*_: object) -> str:
        [new] = out.iterdir()
        assert {path.name for path in new.iterdir()} == {"aggregator", "links"}
        raise OSError("no space left on device")

    plan = read_plan(plan_file(tmp_path, linked_plan()))
    with pytest.raises(OSError, match="no space left"):
        make_links(plan, Places(["a", "b", "c", "d"]), out, url=URL, page=full)
    assert [*out.iterdir()] == []


def test_what_needs_segno_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "segno", None)
    plan, out = plan_file(tmp_path, linked_plan()), tmp_path / "out"
    words = ("links", plan, "--count", 4, "--url", URL, "--out", out)
    said = complaint(sottovoce(*words))
    assert said.startswith("QR codes need segno: ")
    assert said.endswith("; or give --no-qr")
    assert not out.exists()
    assert sottovoce(*words, "--no-qr").code == 0


def test_links_do_not_show_themselves() -> None:
    assert repr(Link(PartyId("p-1"), "https://a.org/#p-1.secret.x", False)) == "<Link of p-1>"


# Links that somebody else makes


class Apart:
    """An organiser, and whoever makes the links for it."""

    def __init__(self, folder: Path) -> None:
        self.own = folder / "organiser"
        said = sottovoce("links", "--key", self.own)
        assert said.code == 0, said.err
        first, second = said.out.splitlines()
        self.public = first.removeprefix("the organiser's key: ")
        assert second == f"the private one is in {self.own}; it is for you alone"
        self.made = linking(folder, "--count", 4, "--spare", 1, "--organiser", self.public)
        self.received = self.made / "aggregator"

    def take(self) -> Any:
        return sottovoce("links", self.received, "--take", self.own)


@pytest.fixture
def apart(tmp_path: Path) -> Apart:
    return Apart(tmp_path)


def test_whoever_makes_the_links_has_no_key_of_the_organiser(apart: Apart) -> None:
    assert {path.name for path in apart.own.iterdir()} == {"identity.key"}
    assert stat.S_IMODE((apart.own / "identity.key").stat().st_mode) == 0o600
    assert not [*apart.made.rglob("identity.key")]
    said = sottovoce("preflight", apart.received)
    assert "identity.key: no such file" in complaint(said)


def test_the_organiser_takes_what_was_made(apart: Apart) -> None:
    said = apart.take()
    assert said.code == 0, said.err
    assert "aggregator, in a survey of 5 parties." in said.out
    assert f"sottovoce collect {apart.own} --listen" in said.out
    assert "the maker of the links can answer in anybody's place" in said.out
    member = read_member(apart.own)
    assert member.identity.name == "aggregator"
    assert member.identity.public.hex() == apart.public
    assert spares(apart.own) == ("p-5",)
    assert {path.name for path in apart.own.iterdir()} == {
        *("authority.pem", "certificate.pem", "charter.json", "identity.key", "roster.json"),
        "spares.json",
    }
    for path in apart.own.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = {path: path.read_bytes() for path in apart.own.iterdir()}
    assert apart.take() == said
    assert {path: path.read_bytes() for path in apart.own.iterdir()} == before


def _for_another_key(apart: Apart) -> None:
    shutil.rmtree(apart.own)
    sottovoce("links", "--key", apart.own)


def _as_a_party(apart: Apart) -> None:
    """The organiser's key is put on the roster as that of a place."""
    roster = json.loads((apart.received / "roster.json").read_text())
    roster["members"][0][1] = roster["members"][1][1]
    (apart.received / "roster.json").write_text(json.dumps(roster))


def _led_by_another(apart: Apart) -> None:
    """The organiser's key is that of a place, on a roster that somebody else leads."""
    read = msgspec.json.decode((apart.received / "charter.json").read_bytes(), type=CharterFile)
    mallory = Identity(PartyId("aggregator"), bytes(31) + b"1")
    members = ((mallory.name, mallory.public), (PartyId("p-1"), bytes.fromhex(apart.public)))
    charter = CharterFile.of(read.agreed(), roster := Roster(members), ("link", 1))
    found = dict(member_files(charter, roster, new_authority(1), whole_roster=True))
    for name, content in found[PartyId("p-1")].items():
        (apart.received / name).write_bytes(content)


def _of_other_spares(apart: Apart) -> None:
    (apart.received / "spares.json").write_text('["ward"]')


def _with_another_certificate(apart: Apart) -> None:
    shutil.copy(apart.received / "authority.pem", apart.received / "certificate.pem")


def _without_a_file(apart: Apart) -> None:
    (apart.received / "spares.json").unlink()


def _without_a_key(apart: Apart) -> None:
    (apart.own / "identity.key").unlink()


def _with_a_pipe(apart: Apart) -> None:
    (apart.received / "charter.json").unlink()
    (apart.received / "charter.json").symlink_to("/dev/zero")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (_for_another_key, "its public key is not on the roster"),
        (_as_a_party, "have the same key"),
        (_led_by_another, "identity.key is on its roster as 'p-1', not 'aggregator'"),
        (_of_other_spares, "spares.json: expected places that have links"),
        (_with_another_certificate, "do not belong together"),
        (_without_a_file, "spares.json: no such file"),
        (_without_a_key, "identity.key: no such file; 'sottovoce links --key' makes this folder"),
        (_with_a_pipe, "charter.json: is not a regular file"),
    ],
)
def test_what_was_received_is_checked(spoil: Any, says: str, apart: Apart) -> None:
    spoil(apart)
    before = sorted(apart.own.iterdir())
    assert says in complaint(apart.take())
    assert sorted(apart.own.iterdir()) == before


def test_a_second_survey_for_one_key_is_refused(apart: Apart, tmp_path: Path) -> None:
    assert apart.take().code == 0
    (tmp_path / "again").mkdir()
    other = linking(tmp_path / "again", "--count", 4, "--organiser", apart.public)
    said = sottovoce("links", other / "aggregator", "--take", apart.own)
    assert "another survey was taken into this folder before" in complaint(said)


def test_the_next_step_is_said_to_whoever_makes_the_links(tmp_path: Path) -> None:
    sottovoce("links", "--key", tmp_path / "own")
    public = read_public(tmp_path / "own")
    plan, out = plan_file(tmp_path, linked_plan()), tmp_path / "out"
    words = ("--count", 4, "--url", URL, "--out", out, "--organiser", public)
    said = sottovoce("links", plan, *words)
    assert (
        f"hand {out}/aggregator to the organiser, who puts it beside the key with: sottovoce links "
        "aggregator --take FOLDER\n"
    ) in said.out
    assert "sottovoce collect" not in said.out


def read_public(folder: Path) -> str:
    """The public key that belongs to the one in a folder."""
    path = folder / "identity.key"
    secret = key_secret(path.read_bytes(), path)
    return Identity(PartyId("aggregator"), secret).public.hex()


def test_no_certificate_is_issued_for_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For ten thousand of them that would take most of the time."""
    issued, issue = [], Authority.issue

    def noted(self: Authority, party: PartyId, public: bytes) -> bytes:
        issued.append(party)
        return issue(self, party, public)

    monkeypatch.setattr(Authority, "issue", noted)
    linking(tmp_path, "--count", 20, "--party", "ward")
    assert issued == ["aggregator", "ward"]
