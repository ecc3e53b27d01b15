"""The two verifiers agree: on sound files, and on damaged and forged ones."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from protocol.simulation.setting import setting_of
from protocol.transcript.entries import Sent
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.verification import verify
from tests.every_variant import examples
from tests.recorded.forgeries import Forgery
from tests.recorded.runs import Run
from tests.recorded.signed import signed_run
from tests.recorded.transcripts import sample, signed_sample
from tests.schema_reader import read_body
from tests.vectors.transcripts import content_of
from tests.verifier.javascript import disagreements, judged, needs_node, node
from tests.verifier.mutations import agreed, damaged, mutations

pytestmark = needs_node

HERE = Path(__file__).parent
VECTORS = HERE.parent / "vectors"


@functools.cache
def sound() -> list[bytes]:
    return [sample().content, signed_sample().content, signed_run().content]


def test_they_find_the_same_in_sound_files(tmp_path: Path) -> None:
    for second, file in zip(judged(tmp_path, sound()), sound(), strict=True):
        first = verify(file)
        assert first.digest is not None
        assert (second["verdict"], second["broken"]) == ("sound", [])
        assert first.intact
        assert (second["size"], second["digest"]) == (first.size, first.digest.hex())


@pytest.mark.slow
def test_the_transcript_of_every_variant_is_accepted_and_its_bodies_are_read(
    tmp_path: Path,
) -> None:
    files = [
        Run(setting_of(example.variant, example.records, seed=1), signed=True).content
        for example in examples()
    ]
    lines = judged(tmp_path, files, "--bodies")
    assert [line["verdict"] for line in lines if "verdict" in line] == ["sound"] * len(files)
    bodies = [list(leaves(line["fields"])) for line in lines if "verdict" not in line]
    assert bodies == [list(leaves(values)) for file in files for values in said(file)]


def said(file: bytes) -> Iterator[Any]:
    """What the bodies of all envelopes hold, read by another outsider."""
    reader = TranscriptReader(file)
    kinds = {kind.name: msgspec.to_builtins(kind) for kind in reader.header.kinds}
    for entry in reader:
        if isinstance(entry, Sent):
            *_, kind, body = msgspec.msgpack.decode(entry.envelope)
            yield read_body(kinds[kind], body)


def leaves(value: Any) -> Iterator[str]:
    """All that is in a value, in its order, spelled as JSON allows."""
    if isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from leaves(item)
    elif isinstance(value, bytes):
        yield value.hex()
    else:
        yield str(int(value) if isinstance(value, float) and value.is_integer() else value)


@pytest.mark.slow
def test_they_agree_on_mutations(tmp_path: Path) -> None:
    files = mutations(sound(), 300, seed=1)
    assert disagreements(tmp_path, files) == []
    verdicts = {verify(file).verdict for file in files}
    assert verdicts == {"sound", "broken", "incomplete", "unfinished"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 7))
def test_they_agree_on_many_mutations(tmp_path: Path, seed: int) -> None:
    assert disagreements(tmp_path, mutations(sound(), 1000, seed)) == []


@pytest.mark.slow
def test_they_agree_on_damaged_vectors(tmp_path: Path) -> None:
    draw = random.Random(1)
    content = json.loads((VECTORS / "transcript" / "transcripts.json").read_text("utf-8"))
    files = [content_of(case["file"], content["pieces"]) for case in content["cases"]]
    small = [file for file in files if len(file) < 10_000]
    many = [damaged(draw, file) for file in small for _ in range(4)]
    assert disagreements(tmp_path, many) == []
    assert len(many) > 3000


def test_what_was_published_is_compared(tmp_path: Path) -> None:
    run = signed_run()
    note = tmp_path / "checkpoint"
    reader = TranscriptReader(run.content)
    list(reader)
    note.write_text(reader.notes[-1], encoding="utf-8")
    files = [run.content, sample().content]
    found = judged(tmp_path, files, "--checkpoint", str(note))
    assert [second["verdict"] for second in found] == ["sound", "broken"]
    assert found[1]["broken"][0]["rule"] == "published"
    found = judged(tmp_path, files, "--digest", sample().digest.hex())
    assert [second["verdict"] for second in found] == ["broken", "sound"]


def test_vectors_of_trees_notes_and_proofs_get_their_answers() -> None:
    files = [VECTORS / name for name in ("merkle.json", "log.json", "transcript/proofs.json")]
    found = json.loads(node(HERE / "proofs.mjs", *files))
    cases = [case for file in files for case in json.loads(file.read_text("utf-8"))["cases"]]
    wanted = {f"{case.get('function') or case['group']}: {case['name']}": case for case in cases}
    assert len(found) > 300
    for name, answer in found.items():
        case = wanted[name]
        assert answer == case.get("holds", case.get("output", case.get("error"))), name


def test_vectors_of_transcripts_get_their_verdicts() -> None:
    file = VECTORS / "transcript" / "transcripts.json"
    cases = json.loads(file.read_text(encoding="utf-8"))["cases"]
    said = json.loads(node(HERE / "vectors.mjs", file))
    assert said.keys() == {case["name"] for case in cases}
    for case in cases:
        says, found = said[case["name"]]
        assert says == case["verdict"], case["name"]
        if "found" in case:
            assert found == [case["found"][name] for name in ("size", "root", "digest")]


def test_names_that_only_look_right_are_not_entries(tmp_path: Path) -> None:
    """JavaScript takes ``["Sent"]`` for "Sent" where it looks something up."""
    forgery = Forgery()
    forgery.records = [msgspec.msgpack.encode([["Refused"], 0, "x", "y", b""])]
    assert disagreements(tmp_path, [forgery.plain()]) == []
    assert verify(forgery.plain()).verdict == "broken"


def test_a_long_list_is_read(tmp_path: Path) -> None:
    """JavaScript has a limit to how many arguments a function takes."""
    forgery = Forgery()
    forgery.header["parameters"] = {"many": [None] * 300_000}
    forgery.header["kinds"] = [list(kind) for kind in forgery.header["kinds"]]
    agreed(forgery)
    [second] = judged(tmp_path, [forgery.plain()])
    assert (second["verdict"], verify(forgery.plain()).verdict) == ("sound", "sound")
