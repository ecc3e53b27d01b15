"""Writes the page of the papers, and measures its figures if asked to."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scenarios.papers.inventory import known_values, measure, page


def run(arguments: Sequence[str]) -> Mapping[str, Any]:
    """The JSON of a command, in a process of its own."""
    print("sottovoce", *arguments, file=sys.stderr)
    done = subprocess.run(
        [sys.executable, "-m", "scenarios", *arguments, "--json"],
        check=True,
        stdout=subprocess.PIPE,
    )
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found


def main(arguments: Sequence[str]) -> int:
    """Write the page that is named."""
    path, *flags = arguments
    if flags:
        figures, file = dict(known_values()), Path(__file__).parent / "measured.json"
        for key, values in measure(run, only=flags[1] if flags[1:] else ""):
            figures[key] = values
            file.write_text(json.dumps(figures, indent=1) + "\n")
    Path(path).write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
