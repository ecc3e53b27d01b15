"""Check whether another file hides one of this project's packages."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("protocol", "parties", "transports")
"""The packages that have to lie beside this one."""


def file_in_the_way() -> str | None:
    """Problem if a package is missing or hidden by another file; else None."""
    home = Path(__file__).resolve().parents[2]
    for name in PACKAGES:
        spec = find_spec(name)
        own = home / name / "__init__.py"
        if spec is None or spec.origin is None:
            return f"{own} is missing: install sottovoce again"
        if Path(spec.origin).resolve() != own:
            return (
                f"{spec.origin} hides sottovoce's package {name!r}: rename or remove it, "
                "or start in another folder"
            )
    return None
