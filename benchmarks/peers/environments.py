"""Environments for packages that are compared and are no dependencies: made once, and kept."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from parties.keeping.user_folders import cache_folder

ROOT = Path(__file__).resolve().parents[2]


class Absent(Exception):
    """Packages that cannot be installed here."""


def environment(packages: Sequence[str]) -> Path:
    """The Python of an environment with this project and some packages in it.

    Args:
        packages: requirements, such as ``pure-ldp==1.2.0``.

    Raises:
        Absent: they cannot be installed.
    """
    wanted = "\n".join([str(ROOT), sys.version, *packages])
    name = hashlib.sha256(wanted.encode()).hexdigest()[:16]
    folder = cache_folder() / "benchmarks" / name
    python, finished = folder / "bin" / "python", folder / "finished"
    if not finished.exists():
        venv.create(folder, clear=True, with_pip=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "-e", str(ROOT), *packages]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            last = done.stderr.strip().splitlines() or ["pip failed"]
            raise Absent(f"{', '.join(packages)}: {last[-1]}")
        finished.touch()
    return python
