"""``sottovoce audit``: every option on transcripts of every variant, and what it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from protocol import AGGREGATOR, PartyId, SecureSum, Variant
from protocol.errors import UsageError
from protocol.session.roster import Roster
from protocol.session.variant import plain_parameters
from protocol.simulation.setting import Setting, make_setting
from protocol.variants import BUILT_IN, PairRR, RRClusters, RRIndependent, SecureSumVariant
from scenarios import Finished, Transcript, simulate
from scenarios.cli.transcripts.observer import ObserverOptions
from scenarios.statement.runs import run_values
from scenarios.surveys.enrolment.agreed import Agreed, CharterFile
from scenarios.surveys.enrolment.folders import member_files, new_authority, write_folder
from tests.every_variant import BITS, PARTIES, Example, examples
from tests.protocol.sessions import answers
from tests.recorded.forgeries import Forgery
from tests.recorded.runs import Run
from tests.scenarios.command import OWN, complaint, sottovoce
from tests.tiers import thinned
from transports.certificates import private_pem
from transports.faults import drop

ALL = ("--observer", "aggregator,party-1", "--tap", "party-2-party-3", "--key", "party-4")


class Recorded(msgspec.Struct, frozen=True):
    """A run's transcript, beside the records of those who took part."""

    path: Path
    records: Path
    summary: Mapping[str, Any]


def recorded(folder: Path, variant: Variant, *, n: int = PARTIES, **options: Any) -> Recorded:
    folder.mkdir(parents=True, exist_ok=True)
    records = answers(variant.survey, n)
    path, csv = folder / "transcript.svt.zst", folder / "records.csv"
    csv.write_text(records.to_csv(), encoding="utf-8")
    outcome = simulate(variant, records, transport="local", parties=PARTIES, path=path, **options)
    return Recorded(path, csv, run_values(Finished(outcome=outcome)))


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return recorded(tmp_path_factory.mktemp("quick"), RRIndependent.with_keep(BITS, 0.6), n=20)


@pytest.fixture(scope="module")
def summed(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return recorded(tmp_path_factory.mktemp("summed"), SecureSumVariant(survey=BITS))


@pytest.mark.slow
def test_a_transcript_is_read_twice(
    summed: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []
    read = Transcript.chunks

    def chunks(self: Transcript) -> Iterable[bytes]:
        opened.append(self)
        return read(self)

    monkeypatch.setattr(Transcript, "chunks", chunks)
    page = ("--html", tmp_path / "page.html")
    more = ("--worst", 2, "--trail", "party-2", "--delta", 0.01, "--replay", *page)
    found = sottovoce("audit", summed.path, *ALL, *more, "--records", summed.records)
    assert (found.code, found.err) == (0, "")
    assert len(opened) == 2


def test_every_variant_has_an_example() -> None:
    assert {example.variant.name for example in examples()} == set(BUILT_IN)


@pytest.mark.slow
@pytest.mark.parametrize("example", thinned(examples(), 9), ids=lambda example: example.name)
def test_every_option_on_every_variant(example: Example, tmp_path: Path) -> None:
    run = recorded(tmp_path, example.variant, n=len(example.records))
    page = tmp_path / "pages" / "page.html"
    asked = (*ALL, "--worst", "2", "--replay", "--records", run.records, "--html", page)
    said = sottovoce("audit", run.path, *asked, "--trail", "party-2", "--delta", "1e-5")
    assert said.code == 0, said.err
    headings = ("What can be linked", "What a coalition knows", "What party-2 told")
    assert set(headings) <= set(said.out.splitlines())
    assert "\nRecord: sound. " in said.out
    assert "The worst coalition. " in said.out
    assert "6 of 6 parties whose keys and records are at hand sent what follows" in said.out
    html = page.read_text(encoding="utf-8")
    assert html.startswith("<!doctype html>")
    assert list(page.parent.iterdir()) == [page]
    found = sottovoce("audit", run.path, *asked, "--trail", "party-2", "--json").json
    assert (found["verdict"], found["findings"]) == ("sound", [])
    assert (found["replay"]["parties"], found["replay"]["follow"]) == (6, 6)
    assert found["replay"]["others"] == []
    assert found["replay"]["aggregator"]["follows"] is True
    assert found["trail"]["party"] == "party-2"
    assert {"coalition", "worst", "linkage"} <= found.keys()
    claims = [check["source"] for check in found["privacy"]["claims"]]
    assert claims == [claim["source"] for claim in run.summary["privacy"]["claims"]]
    for figure in ("record_epsilon", "attribute_epsilon"):
        assert found["privacy"][figure] == run.summary["privacy"][figure]
    pure, tight = found["privacy"]["record_epsilon"], found["privacy"]["at_delta"]["exact"]
    assert (tight["epsilon"] is None) == (pure is None)
    assert pure is None or tight["epsilon"] <= pure
    assert tight["relation"]
    assert tight["assumption"]


@pytest.mark.parametrize(
    "example",
    thinned([example for example in examples() if "literal" not in example.name], 8),
    ids=lambda example: example.name,
)
def test_every_variant_with_losses(example: Example, tmp_path: Path) -> None:
    run = recorded(tmp_path, example.variant, rules=(drop(0.2, kind="Report"),))
    asked = (*ALL, "--worst", "1", "--records", run.records)
    found = sottovoce("audit", run.path, *asked, "--json").json
    assert found["verdict"] == "sound"
    assert found["replay"]["follow"] == 6
    observer = "aggregator, party-1; tap party-2-party-3; key party-4"
    assert found["privacy"]["observer"] == found["linkage"]["observer"] == observer


def test_a_trail(quick: Recorded) -> None:
    found = sottovoce("audit", quick.path, "--trail", "party-3", "--json").json
    assert found["trail"]["party"] == "party-3"
    assert found["trail"]["record_epsilon"] == quick.summary["privacy"]["record_epsilon"]


@pytest.mark.parametrize("observer", ["aggregator", "record", "party-3"])
def test_an_observer(observer: str, quick: Recorded) -> None:
    found = sottovoce("audit", quick.path, "--observer", observer, "--json").json
    assert found["privacy"]["observer"] == observer
    [account] = found["privacy"]["accounts"]
    # A party learns what is published about all others.
    assert account["parties"] == (5 if observer == "party-3" else 6)


SMALL = (
    ("--observer", "party-3"),
    ("--observer", ",".join(f"party-{i}" for i in range(1, PARTIES + 1))),
    ("--tap", "party-1-party-2"),
    ("--key", "party-1"),
)
"""Observers who learn less than all who hold no records, or no more."""


@pytest.mark.parametrize("asked", SMALL, ids=" ".join)
def test_the_figures_of_the_record_do_not_depend_on_who_is_asked_about(
    asked: tuple[str, ...], quick: Recorded, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    given = ("--records", quick.records, "--html", page, "--json")
    on_page = re.compile("<dt>ε per respondent.*?</div>|true records is not shown[^<]*", re.DOTALL)
    before = sottovoce("audit", quick.path, *given).json
    shown = on_page.findall(page.read_text(encoding="utf-8"))
    assert len(shown) == 2
    found = sottovoce("audit", quick.path, *given, *asked).json
    assert on_page.findall(page.read_text(encoding="utf-8")) == shown
    assert found["privacy"]["claims"] == before["privacy"]["claims"]
    verdict, other = (each["statement"]["privacy"] for each in (before, found))
    assert {**other, "reasons": verdict["reasons"]} == verdict
    assert {*verdict["reasons"]} < {*other["reasons"]}
    assert found["coalition"]["taps"] == [["party-1", "party-2"]] * ("--tap" in asked)


@pytest.mark.slow
def test_claims_are_beside_the_record(tmp_path: Path) -> None:
    run = recorded(tmp_path, PairRR.with_keep(BITS, 0.6))
    [check] = sottovoce("audit", run.path, "--json").json["privacy"]["claims"]
    assert check["factor"] == pytest.approx(3.0)
    assert (check["unbounded"], check["record"]) == (False, pytest.approx(3 * check["epsilon"]))


@pytest.mark.slow
def test_an_unbounded_claim_is_shown_as_such(tmp_path: Path) -> None:
    run = recorded(tmp_path, RRClusters(survey=BITS, p=0.6, tv=4, td=0.1))
    *_, check = sottovoce("audit", run.path, "--json").json["privacy"]["claims"]
    assert (check["record"], check["factor"], check["unbounded"]) == (None, None, True)


def test_a_second_opinion(quick: Recorded) -> None:
    pytest.importorskip("dp_accounting")
    found = sottovoce("audit", quick.path, "--pld", "--delta", "1e-4", "--json").json
    tighter = found["privacy"]["at_delta"]
    [other] = tighter["others"]
    assert (tighter["everybody"], tighter["exact"]["tight"]) == (True, True)
    assert tighter["exact"]["delta"] == other["delta"] == 1e-4
    assert other["epsilon"] == pytest.approx(tighter["exact"]["epsilon"], abs=0.01)
    assert "second opinion, by dp-accounting" in other["method"]


def test_other_records_are_found(quick: Recorded, tmp_path: Path) -> None:
    lines = quick.records.read_text().splitlines()
    other = tmp_path / "other.csv"
    # Respondents two and three of the first party's four change places.
    other.write_text("\n".join([*lines[:2], "no,yes,no", *lines[3:]]) + "\n")
    found = json.loads(sottovoce("audit", quick.path, "--records", other, "--json").out)
    [finding] = found["findings"]
    assert finding["party"] == "party-1"
    assert len(finding["entries"]) == 1
    [replay] = found["replay"]["others"]
    assert (replay["member"], replay["follows"]) == ("party-1", False)


def test_what_was_not_replayed_is_said(quick: Recorded, tmp_path: Path) -> None:
    forgery = Forgery(quick.path.read_bytes())
    forgery.header["seed"] = None
    path = tmp_path / "unseeded.svt"
    path.write_bytes(forgery.write())
    said = sottovoce("audit", path, "--details")
    assert "--member FOLDER" in said.out
    refused = complaint(sottovoce("audit", path, "--records", quick.records))
    assert "expected PARTY=FILE" in refused


def read_roster(*names: str) -> Roster:
    members = (AGGREGATOR, *map(PartyId, names))
    return Roster(tuple((name, bytes([i]) * 32) for i, name in enumerate(members, 1)))


def test_wires_between_names_with_hyphens() -> None:
    roster = read_roster("a", "a-b", "b", "b-c", "c")

    def wire(text: str) -> tuple[str, str]:
        found = ObserverOptions(names=(), taps=(text,), keys=()).observer(roster)
        assert found is not None
        assert (found.members, found.keys) == ((), ())
        [pair] = found.taps
        return pair

    assert wire("a-b") == ("a", "b")
    assert wire("aggregator-c") == ("aggregator", "c")
    assert wire("a-b:c") == ("a-b", "c")
    assert wire("a:b-c") == ("a", "b-c")
    with pytest.raises(UsageError, match="ambiguous; expected a:b-c or a-b:c"):
        wire("a-b-c")
    assert ObserverOptions(names=(), taps=(), keys=()).observer(roster) is None
    given = ObserverOptions(names=(" a, b ", "a,record"), taps=("a-c", "a:c"), keys=("c", "c"))
    everybody = given.observer(roster)
    assert everybody is not None
    assert everybody.members == ("a", "b", "record")
    assert everybody.taps == (("a", "c"),)
    assert everybody.keys == ("c",)


@pytest.mark.slow
def test_everybody_but_one_conspires(summed: Recorded) -> None:
    others = ",".join(["aggregator", *(f"party-{i}" for i in range(2, PARTIES + 1))])
    said = sottovoce("audit", summed.path, "--observer", others)
    assert said.code == 0
    found = sottovoce("audit", summed.path, "--observer", others, "--json").json
    assert "party-1" in json.dumps(found["coalition"]["exposed"])
    assert found["coalition"]["smallest"] == 1
    page = summed.path.with_name("page.html")
    assert sottovoce("audit", summed.path, "--observer", others, "--html", page).code == 0
    assert "party-1" in page.read_text()


@pytest.mark.slow
def test_a_file_that_is_torn_is_judged_as_far_as_it_goes(summed: Recorded, tmp_path: Path) -> None:
    path = tmp_path / "torn.svt"
    path.write_bytes(summed.path.read_bytes()[:-200])
    page = tmp_path / "page.html"
    asked = (*ALL, "--worst", "1", "--records", summed.records, "--html", page)
    said = sottovoce("audit", path, *asked)
    assert said.code == 1
    assert "Record: incomplete. " in said.out
    assert page.exists()
    assert json.loads(sottovoce("audit", path, *asked, "--json").out)["verdict"] == "incomplete"


@pytest.mark.slow
def test_a_variant_of_ones_own_with_every_option(tmp_path: Path) -> None:
    said = sottovoce("run", f"{OWN}:roll-call", "--out", tmp_path)
    assert said.code == 0, said.err
    page = tmp_path / "page.html"
    asked = ("--observer", "party-01", "--worst", "1", "--html", page)
    path = tmp_path / "transcript.svt.zst"
    found = sottovoce("audit", path, "--variant", f"{OWN}:RollCall", *asked, "--json").json
    assert found["verdict"] == "sound"
    assert page.exists()


@pytest.mark.slow
def test_the_published_checkpoint_is_compared(tmp_path: Path) -> None:
    said = sottovoce("run", "quickstart", "--set", "residents=20", "--out", tmp_path)
    assert said.code == 0, said.err
    path, published = tmp_path / "transcript.svt.zst", tmp_path / "transcript.checkpoint"
    said = sottovoce("audit", path, "--checkpoint", published, "--details")
    assert said.code == 0
    assert "All 20 parties signed what they sent and received." in said.out
    other = tmp_path / "other"
    sottovoce("run", "quickstart", "--set", "residents=21", "--out", other)
    said = sottovoce("audit", other / "transcript.svt.zst", "--checkpoint", published)
    assert said.code == 1
    assert "Record: broken. " in said.out


def folder_of(setting: Setting, member: PartyId, folder: Path) -> Path:
    """A member's folder, of a survey that no plan can describe yet."""
    charter = setting.charter
    agreed = Agreed(
        charter.variant.name,
        None,
        plain_parameters(charter.variant),
        msgspec.to_builtins(charter.variant.survey),
        charter.analysis,
        charter.nonce,
    )
    written = CharterFile.of(agreed, charter.roster, ("folder", len(charter.roster) - 1))
    files = dict(member_files(written, charter.roster, new_authority(1), whole_roster=False))
    key = private_pem(setting.identities[member].private_key)
    write_folder(folder, {"identity.key": key, **files[member]})
    return folder


def test_a_result_that_takes_the_aggregators_folder(tmp_path: Path) -> None:
    """Of a sum whose opening is withheld."""
    variant = SecureSumVariant(survey=BITS, sums=SecureSum(opening="withheld"))
    setting = make_setting(variant, answers(BITS, PARTIES), seed=1)
    charter = msgspec.structs.replace(setting.charter, enrolled=(("folder", PARTIES),))
    run = Run(msgspec.structs.replace(setting, charter=charter), seeded=False)
    path = tmp_path / "transcript.svt.zst"
    path.write_bytes(run.content)
    said = sottovoce("audit", path)
    assert said.code == 4
    assert "\nRecord: unchecked. The record is intact. " in said.out
    assert "Whether the published result follows is unknown" in said.out
    assert "Nothing that could be checked is wrong." in said.out
    assert json.loads(sottovoce("audit", path, "--json").out)["verdict"] == "unchecked"
    said = sottovoce("estimate", path)
    assert "its audit finds it intact and cannot check the result" in complaint(said, 4)
    folder = folder_of(run.setting, AGGREGATOR, tmp_path / "aggregator")
    said = sottovoce("audit", path, "--member", folder, "--details")
    assert said.code == 0, said.out
    assert "Record: sound. " in said.out
    assert "The published result of 6 respondents follows" in said.out


def test_an_audit_says_what_whoever_made_the_links_could_do(tmp_path: Path) -> None:
    setting = make_setting(RRIndependent.with_keep(BITS, 0.6), answers(BITS, PARTIES), seed=1)
    ways = (("link", PARTIES - 1), ("folder", 1))
    charter = msgspec.structs.replace(setting.charter, enrolled=ways)
    run = Run(msgspec.structs.replace(setting, charter=charter), seeded=False)
    path = tmp_path / "transcript.svt.zst"
    path.write_bytes(run.content)
    said = sottovoce("audit", path)
    assert said.code == 0, said.out
    assert (
        f"by the organiser's word, {PARTIES - 1} were given links: the maker of the links had "
        "every key and could have answered in anybody's place; 1 were given folders with keys in "
        "them, by somebody who could answer as any of them"
    ) in " ".join(said.out.split())


def test_the_intervals_of_an_audit_are_those_of_the_result(quick: Recorded, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    found = sottovoce("audit", quick.path, "--json").json["result"]["intervals"]
    published = quick.summary["estimate"]["intervals"]
    assert found == {name: published[name] for name in ("level", "about", "marginals")}
    asked = ("--level", "0.8", "--about", "population", "--html", page)
    other = sottovoce("audit", quick.path, "--json", *asked).json["result"]["intervals"]
    assert (other["level"], other["about"]) == (0.8, "population")
    assert other["marginals"] != found["marginals"]
    assert "80 % intervals about the population, if the respondents" in page.read_text()
