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

from protocol.simulation.setting import make_setting
from protocol.transcript.checkpoints import read_note
from protocol.transcript.entries import Sent
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.verification import verify
from tests.every_variant import examples
from tests.protocol.wire.schema_reader import read_body
from tests.recorded.runs import Run
from tests.recorded.signed import signed_run
from tests.recorded.transcripts import sample, signed_sample
from tests.tiers import slow
from tests.vectors.formats import MAGIC, content_of, packed
from tests.vectors.test_transcripts import PROOFS, holds
from tests.verifier.javascript import disagreements, judged, needs_node, node
from tests.verifier.mutations import Rewriting, damaged, mutations, respelled

pytestmark = needs_node

HERE = Path(__file__).parent
VECTORS = HERE.parent / "vectors"
FILES = VECTORS / "transcript" / "transcripts.json"
START = len(MAGIC) + 32
"""Where a file's first record begins."""


@functools.cache
def sound() -> list[bytes]:
    return [sample().content, signed_sample().content, signed_run().content]


@functools.cache
def small_vectors(*groups: str, verdict: str | None = None) -> list[bytes]:
    """The vectors of these groups, or of all, that are not large."""
    content = json.loads(FILES.read_text(encoding="utf-8"))
    files = [
        content_of(case["file"], content["pieces"])
        for case in content["cases"]
        if (not groups or case["group"] in groups) and verdict in (None, case["verdict"])
    ]
    return [file for file in files if len(file) < 10_000]


def originals() -> list[bytes]:
    """Sound files of all sorts, to make mutations of: half of them were really recorded."""
    written = small_vectors("layout", "said", "heads", "checkpoints", verdict="sound")
    return written + sound() * (len(written) // len(sound()))


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
        Run(make_setting(example.variant, example.records, seed=1), signed=True).content
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


def test_what_is_taken_apart_is_sound_when_it_is_put_together_again(tmp_path: Path) -> None:
    files = [Rewriting(file).written() for file in dict.fromkeys(originals())]
    for second in judged(tmp_path, files):
        assert (second["verdict"], second["broken"]) == ("sound", [])
    assert disagreements(tmp_path, files) == []


def test_they_agree_on_mutations(tmp_path: Path) -> None:
    files = mutations(originals(), 100, seed=1)
    assert disagreements(tmp_path, files) == []
    assert {verify(file).verdict for file in files} == {"sound", "broken", "incomplete"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 7))
def test_they_agree_on_many_mutations(tmp_path: Path, seed: int) -> None:
    assert disagreements(tmp_path, mutations(originals(), 1000, seed)) == []


@pytest.mark.slow
def test_they_agree_on_mutations_of_what_was_published(tmp_path: Path) -> None:
    original = Rewriting(signed_run().content).written()
    digest, reader = verify(original).digest, TranscriptReader(original)
    list(reader)
    files = [original, *mutations([original], 500, seed=7)]
    for note in (reader.notes[1], reader.notes[-1]):
        assert disagreements(tmp_path, files, digest=digest, note=note) == []
        found = [verify(file, checkpoint=read_note(note)) for file in files]
        assert found[0].verdict == "sound"
        broken = [{fault.rule for fault in each.faults} == {"published"} for each in found]
        assert sum(broken) > 20


@pytest.mark.slow
def test_they_agree_on_damaged_vectors(tmp_path: Path) -> None:
    draw = random.Random(1)
    many = [damaged(draw, file) for file in small_vectors() for _ in range(4)]
    assert disagreements(tmp_path, many) == []
    assert len(many) > 3000


@pytest.mark.slow
def test_they_agree_on_damaged_proofs(tmp_path: Path) -> None:
    """Consistency, evidence and witnesses' keys, which are text."""
    draw = random.Random(1)
    vectors = [case for case in PROOFS["cases"] if case["group"] != "receipts"]
    true = [case for case in vectors if case["holds"]]
    cases = []
    for place in range(4000):
        case = draw.choice(true if draw.random() < 0.8 else vectors) | {"name": f"{place}"}
        name = draw.choice(sorted({"earlier", "proof", "evidence", "key"} & case.keys()))
        cases.append(case | {name: respelled(draw, case[name])})
    path = tmp_path / "proofs.json"
    path.write_text(json.dumps({"pieces": {}, "cases": cases}), encoding="utf-8")
    seconds = json.loads(node(HERE / "proofs.mjs", path))
    firsts = {f"{case['group']}: {case['name']}": holds(case) for case in cases}
    assert seconds == firsts
    assert list(firsts.values()).count(True) > 50


@pytest.mark.parametrize("step", [17, slow(1)])
def test_no_prefix_is_broken(step: int) -> None:
    """A crash leaves one, and breaks no rule."""
    found = json.loads(node(HERE / "prefixes.mjs", FILES, "the annotated file", str(step)))
    assert found["sound"] == 1
    assert set(found) == {"sound", "incomplete"}
    assert found["incomplete"] > 2000 // step


@pytest.mark.slow
def test_no_cut_of_a_sound_vector_is_broken(tmp_path: Path) -> None:
    """Cut at the ends of records, and a little before and after."""
    files = []
    for file in small_vectors(verdict="sound"):
        at = START
        while at < len(file):
            at += 4 + int.from_bytes(file[at : at + 4], "big")
            files += [file[:size] for size in (at - 1, at, at + 1, at + 3) if size < len(file)]
    assert disagreements(tmp_path, files) == []
    assert {verify(file).verdict for file in files} == {"sound", "incomplete"}


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


@pytest.mark.parametrize("step", [5, slow(1)])
def test_vectors_of_transcripts_get_their_verdicts(step: int) -> None:
    cases = json.loads(FILES.read_text(encoding="utf-8"))["cases"][::step]
    said = json.loads(node(HERE / "vectors.mjs", FILES, str(step)))
    assert said.keys() == {case["name"] for case in cases}
    for case in cases:
        says, found = said[case["name"]]
        assert says == case["verdict"], case["name"]
        if "found" in case:
            assert found == [case["found"][name] for name in ("size", "root", "digest")]


ONE = ["u1", [1], b"\1"]
SENSELESS: list[tuple[Any, Any]] = [
    ([], 1),
    ("int", 1),
    (["date"], 1),
    ([["int"], None, None], 1),
    (["nil", None], None),
    (["int", None], 1),
    (["int", None, None, None], 1),
    (["int", False, True], 1),
    (["int", "0", "2"], 1),
    (["float", "0", None], 1.0),
    (["float", b"", None], 1.0),
    (["str", [], None], "a"),
    (["bytes", 0], b"a"),
    (["enum", "abc"], "a"),
    (["enum", b"\1"], 1),
    (["enum", None], None),
    (["list", "nil", 0, None], [None]),
    (["list", ["nil"], 0], [None]),
    (["struct", {}], []),
    (["struct", [["nil"]]], [None]),
    (["struct", ["ab"]], [None]),
    (["map", [["a", ["nil"], 0]]], {"a": None}),
    (["map", "a"], {"a": None}),
    (["union", ["nil"]], None),
    (["union", "nil"], None),
    (["union", [["date"], "nil"]], None),
    (["array", "u3", [[1, 1]], 0, None], ["u3", [1], b"\1\0\0"]),
    (["array", ["u1"], [[1, 1]], 0, None], [["u1"], [1], b"\1"]),
    (["array", "toString", [], 0, None], ["toString", [], b""]),
    (["array", "u1", [1], 0, None], ONE),
    (["array", "u1", [[1]], 0, None], ONE),
    (["array", "u1", ["12"], 0, None], ONE),
    (["array", "u1", "1", 0, None], ONE),
    (["array", "u1", [[1, 1]], "0", None], ONE),
    (["array", "u1", [[1, 1]], 0, "2"], ONE),
    (["array", "u1", [[1, 1]], 0, [2, 2]], ONE),
    (["array", "u1", [[1, 1]], 0, []], ONE),
    (["array", "u1", [], 0, [2]], ["u1", [], b"\1"]),
]
"""Descriptions of no sense, and what would fit if somebody guessed what is meant."""


def test_bodies_by_a_description_of_no_sense_are_malformed(tmp_path: Path) -> None:
    kinds = [[f"{place}", 100, [["a", type_]]] for place, (type_, _) in enumerate(SENSELESS)]
    others = [["fields", 100, {"a": 1}], ["field", 100, ["a"]], ["more", 100, [["a", ["nil"], 0]]]]
    kinds += [[name, most, [fields]] for name, most, fields in others]
    bodies = [("Fine", 1)]
    bodies += [(f"{place}", value) for place, (_, value) in enumerate(SENSELESS)]
    bodies += [(name, None) for name, _, _ in others]
    record = Rewriting(small_vectors("layout", verdict="sound")[0])
    record.header["kinds"] += [["Fine", 100, [["a", ["int", 0, None]]]], *kinds]
    record.records = [
        ["Sent", place, [b"", "ann", "bob", place, kind, packed([value])]]
        for place, (kind, value) in enumerate(bodies)
    ]
    record.records.append(["Ending", b"", True, ""])
    fine, *lines, verdict = judged(tmp_path, [record.written()], "--bodies")
    assert (fine["fields"], verdict["verdict"]) == ({"a": 1}, "sound")
    assert [line["kind"] for line in lines] == [name for name, *_ in kinds]
    assert [line for line in lines if "malformed" not in line] == []
