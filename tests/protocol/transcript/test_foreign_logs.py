"""Roots, proofs and notes against programs of others: pymerkle, and Go's tlog and note."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from protocol import PartyId
from protocol.audit.proofs.consistency import prove_consistency
from protocol.audit.proofs.making_receipts import prove
from protocol.crypto.merkle import inclusion_path, leaf_hash, merkle_root
from protocol.session.roster import Identity
from protocol.transcript.checkpoints import SignedCheckpoint, log_origin, read_note
from protocol.transcript.consistency import decode_consistency
from protocol.transcript.cosignatures import WitnessKey, cosign, with_lines
from protocol.transcript.log import log_leaf
from protocol.variants import RRIndependent
from tests.recorded.checkpointed import checkpoints_of
from tests.recorded.forgeries import Forgery
from tests.recorded.signed import ONE, signed_run
from tests.vectors.formats import FOLDER, log_leaves

pytestmark = pytest.mark.slow

GOPATH = Path("/usr/share/gocode")
X_MOD = GOPATH / "src" / "golang.org" / "x" / "mod" / "sumdb"

PROGRAM = """
package main

import (
    "crypto/ed25519"
    "encoding/base64"
    "encoding/binary"
    "encoding/json"
    "fmt"
    "os"

    "golang.org/x/mod/sumdb/note"
    "golang.org/x/mod/sumdb/tlog"
)

type hashed struct {
    Index, Size, Old int64
    Root, OldRoot, Leaf string
    Path []string
}

type signed struct { Note, Key string }

type given struct {
    Notes []signed
    Note, Key, Cosigner, CosignerKey string
    CosignerId uint32
    Inclusion, Consistency []hashed
}

func hash(text string) tlog.Hash {
    raw, err := base64.StdEncoding.DecodeString(text)
    if err != nil { panic(err) }
    var h tlog.Hash
    copy(h[:], raw)
    return h
}

func path(texts []string) []tlog.Hash {
    found := []tlog.Hash{}
    for _, text := range texts { found = append(found, hash(text)) }
    return found
}

// A verifier of tlog-cosignature, which sumdb/note does not know by itself.
type cosigner struct { name string; id uint32; key ed25519.PublicKey }

func (c cosigner) Name() string { return c.name }
func (c cosigner) KeyHash() uint32 { return c.id }
func (c cosigner) Verify(text, signature []byte) bool {
    if len(signature) != 72 { return false }
    time := binary.BigEndian.Uint64(signature[:8])
    said := fmt.Sprintf("cosignature/v1\\ntime %d\\n%s", time, text)
    return ed25519.Verify(c.key, []byte(said), signature[8:])
}

func main() {
    var g given
    if err := json.NewDecoder(os.Stdin).Decode(&g); err != nil { panic(err) }
    for _, s := range g.Notes {
        verifier, err := note.NewVerifier(s.Key)
        if err != nil { panic(err) }
        _, err = note.Open([]byte(s.Note), note.VerifierList(verifier))
        fmt.Println(err == nil)
    }
    for _, p := range g.Consistency {
        err := tlog.CheckTree(path(p.Path), p.Size, hash(p.Root), p.Old, hash(p.OldRoot))
        fmt.Println(err == nil)
    }
    if g.Note == "" { return }
    verifier, err := note.NewVerifier(g.Key)
    if err != nil { panic(err) }
    opened, err := note.Open([]byte(g.Note), note.VerifierList(verifier))
    fmt.Println(err == nil && len(opened.Sigs) == 1)
    if g.Cosigner != "" {
        key := hash(g.CosignerKey)
        witness := cosigner{g.Cosigner, g.CosignerId, ed25519.PublicKey(key[:])}
        opened, err = note.Open([]byte(g.Note), note.VerifierList(verifier, witness))
        fmt.Println(err == nil && len(opened.Sigs) == 2)
    }
    for _, p := range g.Inclusion {
        leaf := hash(p.Leaf)
        fmt.Println(tlog.CheckRecord(path(p.Path), p.Size, hash(p.Root), p.Index, leaf) == nil)
    }
}
"""


def based(content: bytes) -> str:
    return base64.b64encode(content).decode()


def test_pymerkle_has_the_same_roots_and_inclusion_proofs() -> None:
    pymerkle = pytest.importorskip("pymerkle", reason="pymerkle is not installed")
    forgery = Forgery(signed_run().content)
    leaves = log_leaves(forgery.secret, forgery.contents())
    hashes = [leaf_hash(leaf) for leaf in leaves]
    tree = pymerkle.InmemoryTree(algorithm="sha256")
    for leaf in leaves:
        tree.append_entry(leaf)
    size = len(leaves)
    for first in range(1, size + 1):
        assert tree.get_root(first) == merkle_root(leaves[:first])
        theirs = tree.prove_inclusion(first, size)
        assert theirs.path[0] == hashes[first - 1]
        assert set(theirs.path[1:]) == set(inclusion_path(hashes, first - 1))


WITH_GO = pytest.mark.skipif(
    shutil.which("go") is None or not X_MOD.is_dir(),
    reason="needs Debian's golang-go and golang-golang-x-mod-dev",
)


@WITH_GO
def test_go_accepts_notes_and_proofs(tmp_path: Path) -> None:
    run = signed_run()
    _, earlier, later = checkpoints_of(run.content)
    receipt, _ = prove(lambda: (run.content,), RRIndependent, ONE)
    grown = prove_consistency(lambda: (run.content,), earlier=earlier)
    [counted] = receipt.counted
    proved = [
        {
            "Index": shown.index,
            "Size": later.size,
            "Root": based(later.root),
            "Leaf": based(leaf_hash(log_leaf(shown.salt, shown.content))),
            "Path": [*map(based, shown.path)],
        }
        for shown in (counted.report, counted.closing)
    ]
    joined = {
        "Size": later.size,
        "Old": earlier.size,
        "Root": based(later.root),
        "OldRoot": based(earlier.root),
        "Path": [*map(based, grown.path)],
    }
    given = {
        "Note": later.note,
        "Key": verifier_of(later),
        "Inclusion": [*proved, {**proved[0], "Index": proved[0]["Index"] + 1}],
        "Consistency": [joined, {**joined, "Path": joined["Path"][::-1]}],
    }
    assert go(tmp_path, given) == [True, False, True, True, True, False]
    forged = {**given, "Note": later.note.replace(f"\n{later.size}\n", f"\n{later.size + 1}\n")}
    assert not go(tmp_path, forged)[2]


@WITH_GO
def test_go_agrees_on_the_vectors_of_consistency(tmp_path: Path) -> None:
    """Of those that are well-formed, and about one log and the sizes that they name."""
    cases = json.loads((FOLDER / "transcript" / "proofs.json").read_text(encoding="utf-8"))["cases"]
    notes, proofs, holds = [], [], []
    for case in cases:
        if case["group"] != "consistency":
            continue
        try:
            proof = decode_consistency(case["proof"].encode())
            earlier, later = read_note(case["earlier"]), proof.later
        except ValueError:
            continue
        if (earlier.session, earlier.key, earlier.size) != (later.session, later.key, proof.old):
            continue
        note = case["proof"].partition("\n\n")[2]
        notes += [{"Note": each, "Key": verifier_of(later)} for each in (case["earlier"], note)]
        roots = {"Root": based(later.root), "OldRoot": based(earlier.root)}
        path = [*map(based, proof.path)]
        proofs.append({"Size": later.size, "Old": proof.old, "Path": path, **roots})
        holds.append(case["holds"])
    said = go(tmp_path, {"Notes": notes, "Consistency": proofs})
    signed, grown = said[: len(notes)], said[len(notes) :]
    pairs = zip(signed[::2], signed[1::2], grown, strict=True)
    assert [all(pair) for pair in pairs] == holds
    assert holds.count(True) >= 5
    assert holds.count(False) >= 10


@WITH_GO
def test_go_opens_a_note_with_cosignatures(tmp_path: Path) -> None:
    last = checkpoints_of(signed_run().content)[-1]
    identity = Identity(PartyId("w"), bytes([7]) * 32)
    key = WitnessKey("witness.example/w1", identity.public)
    line = cosign(identity, name=key.name, text=last.signed, time=1679315147)
    given = {
        "Note": with_lines(last.note, [line]),
        "Key": verifier_of(last),
        "Cosigner": key.name,
        "CosignerKey": based(key.key),
        "CosignerId": int.from_bytes(key.id, "big"),
    }
    assert go(tmp_path, given) == [True, True]
    other = cosign(identity, name=key.name, text=b"another\n", time=1679315147)
    assert go(tmp_path, {**given, "Note": with_lines(last.note, [other])}) == [True, False]


def verifier_of(checkpoint: SignedCheckpoint) -> str:
    """The verifier key of a checkpoint's signer."""
    name = log_origin(checkpoint.session, checkpoint.key)
    number = hashlib.sha256(name.encode() + b"\n\1" + checkpoint.key).digest()[:4]
    return f"{name}+{number.hex()}+{based(bytes([1]) + checkpoint.key)}"


def go(folder: Path, given: object) -> list[bool]:
    """What Go says of a note and proofs."""
    source = folder / "main.go"
    source.write_text(PROGRAM)
    own = {"GOPATH": str(GOPATH), "GO111MODULE": "off", "GOCACHE": str(folder / "cache")}
    done = subprocess.run(
        ["go", "run", str(source)],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        env={**os.environ, **own},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [word == "true" for word in done.stdout.split()]
