"""Places that the organiser withdrew are in no response rate, and how many they are is said."""

from __future__ import annotations

from pathlib import Path

from protocol.messages import WITHDRAWN
from tests.recorded.withdrawn import survey_without
from tests.scenarios.command import sottovoce

MOVED = f"{WITHDRAWN}: moved away"


def audited(folder: Path, *reasons: str) -> tuple[str, dict[str, object]]:
    """An audit's page, and its response rate."""
    gone = {f"party-{place}": reason for place, reason in enumerate(reasons, 1)}
    record, page = folder / "a.svt", folder / "a.html"
    record.write_bytes(survey_without(gone).content)
    said = sottovoce("audit", record, "--html", page)
    assert said.code == 0, said.err
    response = sottovoce("audit", record, "--json").json["response"]
    return page.read_text(encoding="utf-8"), response


def test_who_was_withdrawn_was_not_invited(tmp_path: Path) -> None:
    page, response = audited(tmp_path, MOVED, MOVED, "never came")
    assert response == {"asked": 4, "answered": 3, "rate": 0.75, "widest": 0.25, "withdrawn": 2}
    clause = "not counted as invited: 2 places withdrawn before any answer, by the organiser's word"
    assert clause[1:] in page.replace("&#39;", "'")
    assert MOVED in page


def test_where_all_others_answered_it_is_said_too(tmp_path: Path) -> None:
    _, response = audited(tmp_path, MOVED)
    assert (response["rate"], response["withdrawn"]) == (1.0, 1)


def test_whoever_never_came_was_invited(tmp_path: Path) -> None:
    page, response = audited(tmp_path, "never came", "was withdrawn")
    assert (response["asked"], response["withdrawn"]) == (6, 0)
    assert "not counted as invited" not in page.lower()
