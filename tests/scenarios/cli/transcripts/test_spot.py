"""``audit --spot K``: the places drawn, in text, JSON and the page, and what is said of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol import PartyId
from protocol.audit.proofs.spot import draw_places
from protocol.messages import WITHDRAWN
from protocol.transcript.verification import verify
from tests.recorded.withdrawn import survey_without
from tests.scenarios.command import complaint, sottovoce

GONE = {"party-02": "never came", "party-05": f"{WITHDRAWN}: moved away"}
EVERYBODY = tuple(PartyId(f"party-{place:02}") for place in range(1, 31))
COUNTED = tuple(name for name in EVERYBODY if name not in GONE)


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A survey of 30 of whom 28 are counted, signed by its aggregator."""
    path = tmp_path_factory.mktemp("spot") / "a.svt"
    path.write_bytes(survey_without(GONE, 30, signed=True).content)
    return path


def test_counted_places_are_drawn_by_the_root(record: Path, tmp_path: Path) -> None:
    final = verify(record.read_bytes()).final
    assert final is not None
    said = sottovoce("audit", record, "--spot", 7, "--html", tmp_path / "a.html")
    assert said.code == 0, said.err
    drawn = draw_places(COUNTED, final.root, 7)
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    text = said.out[said.out.index("Spot check by telephone") :]
    for shown in (text, page):
        assert (
            f"7 of 28 counted places are drawn by the root of the last checkpoint, of {final.size}"
            in shown
        )
        assert "asks whether their page says “Counted: yes”, and asks nothing about their" in shown
        assert (
            "If 5 % of the counted places were made up, none of them is drawn with a probability "
            "of at most 69.84 %; if 10 % of the counted places were made up, none of them is drawn "
            "with a probability of at most 47.83 %." in shown
        )
        assert "It does not show that the people named are those who were invited" in shown
        assert "can write it again until the draw suits it" in shown
        assert all(name in shown for name in drawn)
    found = sottovoce("audit", record, "--spot", 7, "--json").json["spot"]
    assert found == {
        "asked": 7,
        "counted": 28,
        "root": final.root.hex(),
        "size": final.size,
        "words": "",
        "places": list(drawn),
        "missed": [
            {"share": 0.05, "probability": pytest.approx(0.95**7)},
            {"share": 0.1, "probability": pytest.approx(0.9**7)},
        ],
    }


def test_the_auditors_words_are_drawn_by_too(record: Path) -> None:
    final = verify(record.read_bytes()).final
    assert final is not None
    given = ("audit", record, "--spot", 7, "--spot-words", "lottery 4 8 15")
    assert sottovoce(*given, "--json").json["spot"]["places"] == list(
        draw_places(COUNTED, final.root, 7, "lottery 4 8 15")
    )
    said = sottovoce(*given).out
    assert "leaves and the auditor's words." in said
    assert "until the draw suits it" not in said
    assert "--spot-words: expected --spot K too" in complaint(
        sottovoce("audit", record, "--spot-words", "x")
    )


def test_more_than_are_counted_are_all(record: Path) -> None:
    said = sottovoce("audit", record, "--spot", 100).out
    assert "All 28 counted places are drawn by the root" in said
    assert "fewer than the 100 asked for." in said
    found = sottovoce("audit", record, "--spot", 100, "--json").json["spot"]
    assert sorted(found["places"]) == sorted(COUNTED)
    many = sottovoce("audit", record, "--spot", 28).out
    assert "fewer than" not in many[many.index("Spot check") :]


def test_without_a_last_checkpoint_nothing_is_drawn(tmp_path: Path) -> None:
    record = tmp_path / "a.svt"
    record.write_bytes(survey_without(GONE, 30).content)
    said = sottovoce("audit", record, "--spot", 7).out
    assert "Cannot draw places: expected a checkpoint of the whole record" in said
    found = sottovoce("audit", record, "--spot", 7, "--json").json["spot"]
    assert (found["places"], found["root"], found["missed"]) == ([], None, [])


def test_a_spot_check_is_made_only_where_it_is_asked_for(record: Path) -> None:
    assert "Spot check" not in sottovoce("audit", record).out
    assert "spot" not in sottovoce("audit", record, "--json").json
    assert "--spot" in complaint(sottovoce("audit", record, "--spot", 0))
