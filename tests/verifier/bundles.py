"""The modules of the page that answers, as the bundle that they are shipped in, run by node."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from pathlib import Path

from scenarios.report.page.bundling import bundled, verifier
from tests.verifier.javascript import NODE, needs_node

__all__ = ["ANSWERING", "bundle", "needs_node", "run"]

ANSWERING = Path(__file__).parents[2] / "scenarios" / "report" / "page" / "answering"

_PRELUDE = """
globalThis.crypto ??= require("node:crypto").webcrypto;
const input = new Uint8Array(require("node:fs").readFileSync(0));
const output = (bytes) => require("node:fs").writeSync(1, bytes);
"""


@functools.cache
def bundle(entry: str = "party.js") -> str:
    """The script of a module and of all that it imports."""
    return bundled(entry, ANSWERING, verifier())


def run(script: str, given: bytes = b"", *, entry: str = "party.js", before: str = "") -> bytes:
    """What a script writes with ``output(bytes)``.

    It may await, and has ``modules`` and ``input``, the bytes given.

    Args:
        script: statements.
        given: its standard input.
        entry: the module that is bundled, with all that it imports.
        before: statements that run before the modules.
    """
    assert NODE is not None
    whole = [_PRELUDE, before, bundle(entry), "globalThis.modules = modules;"]
    whole.append(f"(async () => {{\n{script}\n}})();")
    with tempfile.NamedTemporaryFile("w", suffix=".cjs", encoding="utf-8") as file:
        file.write("\n".join(whole))
        file.flush()
        # Node 18 warns of what WebCrypto has of Ed25519.
        command = [NODE, "--no-warnings", "--unhandled-rejections=strict", file.name]
        done = subprocess.run(command, input=given, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert not done.stderr, done.stderr.decode()
    return done.stdout
