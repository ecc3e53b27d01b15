"""Attacks the clients of other libraries that the documentation shows, each where it is installed.

The files, the packages, the commands and the verdicts are those of the page.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import tempfile
from pathlib import Path

from benchmarks.peers.environments import ROOT, Absent, environment

PAGE = ROOT / "docs" / "attacking-others.md"

_FILE = re.compile(r"<!-- file: (\S+) -->\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_RUN = re.compile(
    r"<!-- not run: needs ([^;]*); ([^>]*) -->\n```sh\nsottovoce (.*?)\n```$", re.MULTILINE
)


def attack_clients() -> bool:
    """Run every command of the page; whether each verdict that could be had is the page's."""
    page, right = PAGE.read_text(encoding="utf-8"), True
    with tempfile.TemporaryDirectory() as folder:
        for name, text in _FILE.findall(page):
            (Path(folder) / name).write_text(text, encoding="utf-8")
        for packages, verdict, command in _RUN.findall(page):
            needed = packages.split()
            print(f"\n{needed[0]}: sottovoce {command}", flush=True)
            try:
                python = environment(needed)
            except Absent as error:
                print(f"  skipped: {error}")
                continue
            done = subprocess.run(
                [str(python), "-m", "scenarios", *shlex.split(command)],
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
            )
            said = done.stdout or done.stderr
            print("".join(f"  {line}\n" for line in said.splitlines()), end="", flush=True)
            if not said.startswith(verdict):
                print(f"  expected: {verdict}")
                right = False
    return right
