"""The program says of every vector of transcripts what the vectors have it say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from protocol.transcript.checkpoints import read_note
from protocol.transcript.cosignatures import cosigned, read_witness_key
from protocol.transcript.reader import RULES
from protocol.transcript.verification import Verification, verify
from tests.vectors.transcripts import FOLDER, files

Given = dict[str, Any]

TRANSCRIPTS: Given = json.loads((FOLDER / "transcripts.json").read_text(encoding="utf-8"))


def content_of(parts: list[str]) -> bytes:
    """The bytes of a file, as ``docs/vectors.md`` says."""
    pieces, content = TRANSCRIPTS["pieces"], []
    for part in parts:
        text, _, times = part.partition("*")
        content.append(bytes.fromhex(pieces.get(text, text)) * int(times or 1))
    return b"".join(content)


def verified(case: Given) -> Verification:
    given = case.get("given", {})
    note, digest = given.get("checkpoint"), given.get("digest")
    keys = [read_witness_key(key) for key in given.get("witnesses", ())]
    return verify(
        content_of(case["file"]),
        digest=None if digest is None else bytes.fromhex(digest),
        checkpoint=None if note is None else read_note(note),
        cosigned=cosigned(note, keys, needed=given["needed"]) if keys else None,
    )


@pytest.mark.parametrize("group", dict.fromkeys(case["group"] for case in TRANSCRIPTS["cases"]))
def test_files_get_their_verdicts(group: str) -> None:
    for case in TRANSCRIPTS["cases"]:
        if case["group"] != group:
            continue
        found = verified(case)
        rules = [rule for rule in RULES if rule in {fault.rule for fault in found.faults}]
        said = found.verdict, sorted(rules)
        assert said == (case["verdict"], sorted(case["rules"])), case["name"]
        if "found" in case:
            digest, size = case["found"]["digest"], case["found"]["size"]
            assert found.digest is not None, case["name"]
            assert (found.digest.hex(), found.size) == (digest, size), case["name"]


def test_every_rule_is_broken_in_several_ways() -> None:
    cases = TRANSCRIPTS["cases"]
    for rule in RULES:
        assert sum(rule in case["rules"] for case in cases) >= 3, rule
    names = [case["name"] for case in cases]
    assert len(set(names)) == len(names)
    verdicts = [case["verdict"] for case in cases]
    assert min(map(verdicts.count, set(verdicts))) >= 25


def test_the_maker_makes_these_files() -> None:
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    assert there == files()
