"""The README as an index of packages shows it: with links and pictures that work there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE = re.compile(r"\]\((?!\w+:|#)([^)\s]+)")
_PICTURES = (".png", ".svg")


class LongDescription(MetadataHookInterface):
    """Makes relative targets of the README absolute, by the address of the sources."""

    def update(self, metadata: dict[str, Any]) -> None:
        source = metadata["urls"]["Source"]

        def absolute(found: re.Match[str]) -> str:
            kind = "raw" if found[1].endswith(_PICTURES) else "blob"
            return f"]({source}/{kind}/HEAD/{found[1]}"

        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": _RELATIVE.sub(absolute, text),
        }
