"""``audit --spot K``: the places drawn, in text, JSON and the page, and what is said of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol import PartyId
from protocol.audit.proofs.spot import draw_places
from protocol.messages import WITHDRAWN
from protocol.transcript.verification import verify
from tests.recorded.withdrawn import survey_without
from tests.scenarios.command import sottovoce

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
    # The page says what the text says.
    text = said.out.partition("Spot check by telephone\n")[2].partition("  Places to ask")[0]
    assert len(text.splitlines()) == 5
    assert all(line.strip() in page for line in text.splitlines())
    assert all(name in page for name in drawn)
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


def test_more_than_are_counted_are_all(record: Path) -> None:
    found = sottovoce("audit", record, "--spot", 100, "--json").json["spot"]
    assert sorted(found["places"]) == sorted(COUNTED)
    many = sottovoce("audit", record, "--spot", 28).out
    assert "fewer than" not in many[many.index("Spot check") :]


def test_without_a_last_checkpoint_nothing_is_drawn(tmp_path: Path) -> None:
    record = tmp_path / "a.svt"
    record.write_bytes(survey_without(GONE, 30).content)
    found = sottovoce("audit", record, "--spot", 7, "--json").json["spot"]
    assert (found["places"], found["root"], found["missed"]) == ([], None, [])


def test_a_spot_check_is_made_only_where_it_is_asked_for(record: Path) -> None:
    assert "Spot check" not in sottovoce("audit", record).out
    assert "spot" not in sottovoce("audit", record, "--json").json
