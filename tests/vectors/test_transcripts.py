"""The program says of every vector of transcripts what the vectors have it say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from parties.keeping.checkpoints import read_evidence
from protocol.errors import UsageError
from protocol.transcript.checkpoints import read_note
from protocol.transcript.consistency import consistency_problems, decode_consistency
from protocol.transcript.cosignatures import cosigned, read_witness_key
from protocol.transcript.reader import RULES
from protocol.transcript.receipts import decode_receipt, receipt_problems
from protocol.transcript.verification import Verification, verify
from tests.vectors.formats import FOLDER, content_of

Given = dict[str, Any]

TRANSCRIPTS, PROOFS = (
    json.loads((FOLDER / "transcript" / name).read_text(encoding="utf-8"))
    for name in ("transcripts.json", "proofs.json")
)


def verified(case: Given) -> Verification:
    given = case.get("given", {})
    note, digest = given.get("checkpoint"), given.get("digest")
    keys = [read_witness_key(key) for key in given.get("witnesses", ())]
    return verify(
        content_of(case["file"], TRANSCRIPTS["pieces"]),
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


def problems(case: Given) -> tuple[str, ...]:
    """What is wrong with a proof, with the checkpoint that is given beside it."""
    match case["group"]:
        case "consistency":
            proof = decode_consistency(case["proof"].encode())
            return consistency_problems(proof, read_note(case["earlier"]))
        case "receipts":
            receipt = decode_receipt(content_of(case["receipt"], PROOFS["pieces"]))
            return receipt_problems(receipt, read_note(case["checkpoint"]))
        case "evidence":
            found = read_evidence(case["evidence"].encode(), Path("evidence"))
            return () if found.check() else ("they do not contradict each other",)
    read_witness_key(case["key"])
    return ()


def holds(case: Given) -> bool:
    """Whether a proof holds. What is malformed does not."""
    try:
        return not problems(case)
    except (ValueError, UsageError):
        return False


@pytest.mark.parametrize("group", dict.fromkeys(case["group"] for case in PROOFS["cases"]))
def test_proofs_hold_or_do_not(group: str) -> None:
    for case in PROOFS["cases"]:
        if case["group"] != group:
            continue
        assert holds(case) == case["holds"], case["name"]
        if "word" in case:
            receipt = decode_receipt(content_of(case["receipt"], PROOFS["pieces"]))
            assert receipt.word == case["word"], case["name"]


def test_the_annotated_file_is_the_file() -> None:
    lines = (FOLDER / "transcript" / "example.txt").read_text(encoding="utf-8").splitlines()
    digits = "".join(line.partition("#")[0] for line in lines)
    [case] = [case for case in TRANSCRIPTS["cases"] if case["name"] == "the annotated file"]
    assert bytes.fromhex(digits) == content_of(case["file"], TRANSCRIPTS["pieces"])


def test_every_rule_is_broken_in_several_ways() -> None:
    cases = TRANSCRIPTS["cases"]
    for rule in RULES:
        assert sum(rule in case["rules"] for case in cases) >= 3, rule
    for cases_ in (cases, PROOFS["cases"]):
        names = [(case["group"], case["name"]) for case in cases_]
        assert len(set(names)) == len(names)
    verdicts = [case["verdict"] for case in cases]
    assert min(map(verdicts.count, set(verdicts))) >= 25
