"""The second verifier, of ``docs/verifier``, run by node on many files at once."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from protocol.transcript.checkpoints import read_note
from protocol.transcript.verification import verify

FOLDER = Path(__file__).parents[2] / "docs" / "verifier"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node (Debian's nodejs) is not installed")


def node(script: Path, *arguments: str | Path) -> str:
    """What a script prints."""
    assert NODE is not None
    # Node 18 warns of what WebCrypto has of Ed25519.
    command = [NODE, "--no-warnings", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    return done.stdout


def judged(folder: Path, files: Sequence[bytes], *options: str) -> list[dict[str, Any]]:
    """What the second verifier says of each file."""
    paths = [folder / f"{i}.svt" for i in range(len(files))]
    for path, file in zip(paths, files, strict=True):
        path.write_bytes(file)
    said = node(FOLDER / "verify.js", *options, *paths)
    # A name may hold what Python takes for the end of a line.
    return [json.loads(line) for line in said.split("\n")[:-1]]


def disagreements(
    folder: Path,
    files: Sequence[bytes],
    *,
    digest: bytes | None = None,
    note: str | None = None,
) -> list[tuple[int, str, str]]:
    """Which files the two judge differently: number, the first's verdict and the second's.

    Args:
        folder: for the files.
        files: what is judged.
        digest: given from outside.
        note: of a checkpoint that was published.
    """
    options = [] if digest is None else ["--digest", digest.hex()]
    if note is not None:
        (folder / "checkpoint").write_text(note, encoding="utf-8")
        options += ["--checkpoint", str(folder / "checkpoint")]
    checkpoint = None if note is None else read_note(note)
    seconds = [second["verdict"] for second in judged(folder, files, *options)]
    firsts = [verify(file, digest=digest, checkpoint=checkpoint).verdict for file in files]
    pairs = enumerate(zip(firsts, seconds, strict=True))
    return [(i, first, second) for i, (first, second) in pairs if first != second]
