"""The digest of a survey covers all of its words, and none that the page does not know."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec

from protocol import Survey
from tests.vectors.pages.settings import WORDED, survey_of
from tests.verifier.bundles import needs_node, run

pytestmark = needs_node

SCRIPT = Path(__file__).parent / "digests.js"
PLAIN: dict[str, Any] = msgspec.to_builtins(WORDED)
GROUPS = [{"attributes": ["leave", "ill"], "ask": "Which?", "help": "Tick all."}]
MORE = {
    **PLAIN,
    "texts": [{**text, "groups": GROUPS} for text in PLAIN["texts"]],
    "closes": "2026-12-15T18:00:00Z",
}
"""Every field that a survey can have, in the program's order."""


def digests(*surveys: dict[str, Any]) -> list[str]:
    """By the page, of surveys as terms have them: with the keys of all maps sorted."""
    given = [msgspec.msgpack.encode(survey, order="deterministic").hex() for survey in surveys]
    found: list[str] = json.loads(
        run(SCRIPT.read_text(encoding="utf-8"), json.dumps(given).encode())
    )
    return found


def test_digests_are_the_programs() -> None:
    surveys = [WORDED, survey_of(2, 3), Survey("Town", WORDED.attributes, WORDED.texts[:1])]
    found = digests(*(msgspec.to_builtins(survey) for survey in surveys))
    assert found == [survey.digest.hex() for survey in surveys]


def test_fields_are_hashed_in_their_order() -> None:
    wanted = hashlib.sha256(b"sottovoce survey 1\0" + msgspec.msgpack.encode(MORE)).hexdigest()
    changed = json.loads(json.dumps(MORE))
    changed["texts"][1]["groups"][0]["help"] = "Tick all!"
    found = digests(MORE, changed, {**MORE, "closes": "2026-12-15T18:00:01Z"})
    assert found[0] == wanted
    assert len({*found, WORDED.digest.hex()}) == 4


def test_an_unknown_field_has_no_digest() -> None:
    assert digests({**PLAIN, "more": 1}) == ["a survey's unknown field more"]
