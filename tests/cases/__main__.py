"""Updates case files: ``python -m tests.cases [FILES]``, by default all."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.cases.reading import run_case


def update(path: Path) -> bool:
    """Run a case and write its output into it; True if that changes the file."""
    text = path.read_text(encoding="utf-8")
    came = run_case(text)
    if came != text:
        path.write_text(came, encoding="utf-8")
    return came != text


def main() -> None:
    named = [Path(name) for name in sys.argv[1:]]
    broken = False
    for path in named or sorted(Path(__file__).parent.rglob("*.txt")):
        try:
            if update(path):
                print(f"updated: {path}")
        except (AssertionError, OSError, ValueError) as error:
            print(f"{path}: {error}")
            broken = True
    sys.exit(broken)


if __name__ == "__main__":
    main()
