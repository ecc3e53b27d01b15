"""``explain``: one respondent's picture, from a record that is accepted."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from protocol import Attribute, Records, Survey
from protocol.variants import RRIndependent, RRJoint
from scenarios import Outcome, simulate, town
from scenarios.report.one_respondent import _percent
from tests.scenarios.command import complaint, sottovoce
from transports.faults import crash

N = 60


def csv_of(records: Records, path: Path) -> Path:
    attributes = records.survey.attributes
    rows = [
        ",".join(a.categories[code] for a, code in zip(attributes, row, strict=True))
        for row in records.codes
    ]
    path.write_text("\n".join((",".join(records.survey.names), *rows)) + "\n")
    return path


@pytest.fixture(scope="module")
def records() -> Records:
    return town(N, seed=3)


@pytest.fixture(scope="module")
def table(records: Records, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return csv_of(records, tmp_path_factory.mktemp("records") / "town.csv")


@pytest.fixture(scope="module")
def path(records: Records, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return of(RRIndependent.with_keep(records.survey, p=1 - 2**-30), records, tmp_path_factory)


def of(variant: object, records: Records, folders: pytest.TempPathFactory, k: int = 1) -> Path:
    path = folders.mktemp("explain") / "transcript.svt.zst"
    parties = N // k
    done: Outcome = simulate(variant, records, path=path, transport="local", parties=parties)
    assert done.digest
    return path


def texts(path: Path) -> list[str]:
    tree = ElementTree.parse(path)
    return [node.text or "" for node in tree.iter("{http://www.w3.org/2000/svg}text")]


def test_a_report_that_tells_the_answer(
    records: Records, path: Path, table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "one.svg"
    said = sottovoce("explain", path, "party-07", "--records", table, "--out", out)
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[-1] == f"written: {out}, which only its owner may read"
    shown = texts(out)
    for attribute, code in zip(records.survey.attributes, records.codes[6], strict=True):
        # Answered, sent, and sure: beside the category that it is.
        category = attribute.categories[code]
        assert f"{attribute.name}: {category} was sent; that this is the answer has" in said.out
        assert shown.count(category) >= 3
        at = np.flatnonzero([text == attribute.categories[code] for text in shown])
        assert any(shown[place + 1].endswith("\N{RIGHTWARDS ARROW} over 99 %") for place in at)
    assert "One respondent of 60: party-07" in shown
    assert any(text.startswith("Her receipt: the report is line ") for text in shown)


def test_without_records_the_answer_is_hers_alone(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "one.svg"
    assert sottovoce("explain", path, "party-07", "--out", out).code == 0
    shown = texts(out)
    assert "only she knows" in shown
    assert "the truth" not in shown
    assert shown.count("?") == 4


def test_one_of_many_respondents_of_a_party(
    records: Records, table: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    joint = RRJoint.with_keep(records.survey, p=1 - 2**-30)
    path, out = of(joint, records, tmp_path_factory, k=5), tmp_path / "one.svg"
    given = ("--records", table, "--out", out)
    assert sottovoce("explain", path, "party-03", "--respondent", 4, *given).code == 0
    shown = texts(out)
    assert "One respondent of 60: respondent 4 of party-03" in shown
    # The fourth of the third five.
    for attribute, code in zip(records.survey.attributes, records.codes[13], strict=True):
        assert shown.count(attribute.categories[code]) >= 3
    refused = complaint(sottovoce("explain", path, "party-03", "--respondent", 6, *given))
    assert refused == "--respondent 6: party-03 speaks for 5 respondents"


def test_who_is_not_counted_is_not_explained(records: Records, tmp_path: Path) -> None:
    """Nor are her answers among those that are expected."""
    path, out = tmp_path / "transcript.svt.zst", tmp_path / "one.svg"
    done = simulate(
        RRIndependent.with_keep(records.survey, p=1 - 2**-30),
        records,
        path=path,
        transport="local",
        rules=[crash(0.3)],
    )
    away = [*done.completeness.closings[0].missing]
    assert away
    refused = complaint(sottovoce("explain", path, away[0], "--out", out))
    assert f"no report of a party {away[0]!r} is counted" in refused
    here = [i for i in range(N) if f"party-{i + 1:02}" not in away]
    left = csv_of(Records(records.survey, records.codes[here]), tmp_path / "left.csv")
    last = f"party-{here[-1] + 1:02}"
    assert sottovoce("explain", path, last, "--records", left, "--out", out).code == 0
    shown = texts(out)
    for attribute, code in zip(records.survey.attributes, records.codes[here[-1]], strict=True):
        assert shown.count(attribute.categories[code]) >= 3


def test_too_many_combinations_to_be_taken_together(tmp_path: Path) -> None:
    survey = Survey(
        "many",
        tuple(Attribute(name=f"q{i}", categories=("no", "yes")) for i in range(17)),
    )
    answers = Records(survey, (np.arange(20)[:, np.newaxis] % 2 * np.ones(17)).astype(np.uint8))
    path, out = tmp_path / "transcript.svt.zst", tmp_path / "one.svg"
    simulate(RRIndependent.with_keep(survey, p=0.5), answers, path=path, transport="local")
    said = sottovoce("explain", path, "party-01", "--out", out)
    assert said.code == 0, said.err
    assert "Attributes that are not randomized together are apart." in said.out


def test_nothing_is_rounded_to_certainty() -> None:
    shown = [_percent(share) for share in (0.0, 0.001, 0.5, 0.9951, 1.0)]
    assert shown == ["under 1 %", "under 1 %", "50 %", "over 99 %", "over 99 %"]


def test_the_picture_is_its_owners_alone_and_another_one_may_replace_it(
    path: Path, tmp_path: Path
) -> None:
    out = tmp_path / "one.svg"
    for _ in range(2):
        said = sottovoce("explain", path, "party-01", "--out", out)
        assert said.code == 0, said.err
        assert "which only its owner may read" in said.out
        assert out.stat().st_mode & 0o777 == 0o600
    key = tmp_path / "key.svg"
    key.write_text("secret")
    key.chmod(0o600)
    assert "only its owner" in complaint(sottovoce("explain", path, "party-01", "--out", key))
    assert key.read_text() == "secret"
