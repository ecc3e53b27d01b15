"""A reader's type checker accepts all code on the pages, by mypy's strict rules and by pyright."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_docs import PAGES, ROOT, blocks_of
from tests.verifier.javascript import needs_node

pytestmark = pytest.mark.slow  # without a cache, each checker takes some 18 seconds of a processor

NOT_OF_THE_PAGES = ("multi_freq_ldpy", "opendp", "pure_ldp", "shuffler", "two_servers")
"""What docs/attacking-others.md attacks, which is not installed, and files beside examples."""

INFERRED = """
from typing import assert_type

from protocol import GroupTables, JointReports, LinearEstimate, Records
from protocol.estimators.releases.noisy import NoisyTables
from protocol.variants import RRBA, PrivKVVariant, RRJoint, SecureSumVariant
from protocol.variants.keyvalue.estimate import KeyValueTables
from scenarios import Context, simulate, simulate_async, tabulate


def of_the_variant(
    context: Context,
    joint: RRJoint,
    keys: PrivKVVariant,
    views: RRBA,
    sums: SecureSumVariant,
    records: Records,
) -> None:
    assert_type(simulate(joint, records).estimate, LinearEstimate[JointReports])
    assert_type(simulate(joint, records).variant, RRJoint)
    assert_type(simulate(sums, records).estimate, LinearEstimate[NoisyTables])
    assert_type(simulate(views, records).estimate, LinearEstimate[GroupTables])
    assert_type(simulate(keys, records).estimate, KeyValueTables)
    assert_type(context.simulate(joint, records).estimate, LinearEstimate[JointReports])
    assert_type(tabulate(joint, records, n=10).estimate, LinearEstimate[JointReports])


async def inside_trio(joint: RRJoint, records: Records) -> None:
    assert_type((await simulate_async(joint, records)).estimate, LinearEstimate[JointReports])
"""


@pytest.fixture
def blocks(tmp_path: Path) -> Path:
    """A folder with every block of Python as a file, and with the files that pages import."""
    for page in PAGES:
        stem = page.removesuffix(".md").replace("/", "_").replace("-", "_")
        for place, block in enumerate(blocks_of(page)):
            if block.language == "python":
                name = block.about if block.mark == "file" else f"{stem}_{place}.py"
                file = tmp_path / name
                assert not file.exists(), f"two pages have a file {name}"
                file.write_text(block.text, encoding="utf-8")
    (tmp_path / "inferred.py").write_text(INFERRED, encoding="utf-8")
    return tmp_path


def said_of(blocks: Path, *command: str) -> str:
    """What a type checker says of these files, beside its summary."""
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": f"{ROOT}{os.pathsep}{blocks}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def test_mypy(blocks: Path) -> None:
    """By the project's own rules, which are the strict ones, and with its cache."""
    files = sorted(map(str, blocks.glob("*.py")))
    said = said_of(blocks, "mypy", "--no-error-summary", "--no-pretty", *files)
    absent = [f'module named "{name}' for name in NOT_OF_THE_PAGES]
    complaints = [
        line[line.rfind(os.sep, 0, line.index(":")) + 1 :]  # its cache keeps older folders
        for line in said.splitlines()
        if " error: " in line and not any(name in line for name in absent)
    ]
    assert not complaints, "\n".join(complaints)


@needs_node
def test_pyright(blocks: Path) -> None:
    """By its usual rules."""
    rules = {"pythonVersion": "3.11", "extraPaths": [str(ROOT)]}
    (blocks / "pyrightconfig.json").write_text(json.dumps(rules), encoding="utf-8")
    said = said_of(
        blocks, "pyright", "--project", str(blocks), "--pythonpath", sys.executable, "--outputjson"
    )
    absent = [f'Import "{name}' for name in NOT_OF_THE_PAGES]
    complaints = [
        f"{Path(found['file']).name}:{found['range']['start']['line'] + 1}: {found['message']}"
        for found in json.loads(said)["generalDiagnostics"]
        if found["severity"] == "error" and not found["message"].startswith(tuple(absent))
    ]
    assert not complaints, "\n".join(complaints)
