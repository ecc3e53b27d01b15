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

from protocol.audit.proofs.consistency import prove_consistency
from protocol.audit.proofs.receipt import prove
from protocol.crypto.merkle import inclusion_path, leaf_hash, root_of
from protocol.transcript.checkpoints import origin_of
from protocol.transcript.log import log_leaf
from protocol.variants import RRIndependent
from tests.recorded.checkpointed import checkpoints_of
from tests.recorded.forgeries import Forgery
from tests.recorded.signed import ONE, signed_run
from tests.vectors.make import log_leaves

pytestmark = pytest.mark.slow

GOPATH = Path("/usr/share/gocode")
X_MOD = GOPATH / "src" / "golang.org" / "x" / "mod" / "sumdb"

PROGRAM = """
package main

import (
    "encoding/base64"
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

type given struct {
    Note, Key string
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

func main() {
    var g given
    if err := json.NewDecoder(os.Stdin).Decode(&g); err != nil { panic(err) }
    verifier, err := note.NewVerifier(g.Key)
    if err != nil { panic(err) }
    opened, err := note.Open([]byte(g.Note), note.VerifierList(verifier))
    fmt.Println(err == nil && len(opened.Sigs) == 1)
    for _, p := range g.Inclusion {
        leaf := hash(p.Leaf)
        fmt.Println(tlog.CheckRecord(path(p.Path), p.Size, hash(p.Root), p.Index, leaf) == nil)
    }
    for _, p := range g.Consistency {
        err := tlog.CheckTree(path(p.Path), p.Size, hash(p.Root), p.Old, hash(p.OldRoot))
        fmt.Println(err == nil)
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
        assert tree.get_root(first) == root_of(leaves[:first])
        theirs = tree.prove_inclusion(first, size)
        assert theirs.path[0] == hashes[first - 1]
        assert set(theirs.path[1:]) == set(inclusion_path(hashes, first - 1))


@pytest.mark.skipif(
    shutil.which("go") is None or not X_MOD.is_dir(),
    reason="needs Debian's golang-go and golang-golang-x-mod-dev",
)
def test_go_accepts_notes_and_proofs(tmp_path: Path) -> None:
    run = signed_run()
    earlier, later = checkpoints_of(run.content)
    receipt = prove(lambda: (run.content,), RRIndependent, ONE)
    grown = prove_consistency(lambda: (run.content,), earlier=earlier)
    [counted] = receipt.counted
    name = origin_of(later.session, later.key)
    number = hashlib.sha256(name.encode() + b"\n\1" + later.key).digest()[:4]
    proved = [
        {
            "Index": shown.index,
            "Size": later.size,
            "Root": based(later.root),
            "Leaf": based(leaf_hash(log_leaf(shown.salt, shown.content))),
            "Path": [*map(based, shown.path)],
        }
        for shown in (counted.report, counted.closing, receipt.ending)
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
        "Key": f"{name}+{number.hex()}+{based(bytes([1]) + later.key)}",
        "Inclusion": [*proved, {**proved[0], "Index": proved[0]["Index"] + 1}],
        "Consistency": [joined, {**joined, "Path": joined["Path"][::-1]}],
    }
    assert go(tmp_path, given) == [True] * 4 + [False, True, False]
    forged = {**given, "Note": later.note.replace(f"\n{later.size}\n", f"\n{later.size + 1}\n")}
    assert not go(tmp_path, forged)[0]


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
