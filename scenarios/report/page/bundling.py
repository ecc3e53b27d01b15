"""Puts the modules of a page's script into one script, with nothing left to fetch."""

from __future__ import annotations

import re
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+\.js)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:const|function|class) (\w+))", re.MULTILINE)
_COMMENT = re.compile(r"^ *(?://.*|/\*\*(?:[^*]|\*(?!/))*\*/)\n", re.MULTILINE)
_LEFT = re.compile(r"^(import|export)\b.*$", re.MULTILINE)


def verifier() -> Traversable:
    """The folder of the second verifier's modules.

    A wheel has a copy next to this file; a checkout has it in ``docs``.
    """
    beside = files("scenarios.report.page") / "verifier"
    return beside if beside.is_dir() else Path(__file__).parents[3] / "docs" / "verifier"


def bundled(entry: str, *folders: Traversable) -> str:
    """A module and all modules that it imports, as one script.

    The script declares ``modules``, which has the exports of each module by its file's name.
    Imports are written ``import { a, b as c } from "./name.js";``, exports stand at their
    declarations. Comments that fill their lines are left out.

    Args:
        entry: the file's name.
        folders: folders to search for modules, in order.

    Raises:
        FileNotFoundError: no folder has a module that is imported.
        ValueError: an import or export of another form, or modules that import each other in a
            circle.
    """
    parts: dict[str, str] = {}

    def add(name: str, within: tuple[str, ...]) -> None:
        if name in within:
            raise ValueError(f"modules import each other: {' -> '.join((*within, name))}")
        source = _COMMENT.sub("", _source(name, folders))
        for imported in _IMPORT.finditer(source):
            if imported[2] not in parts:
                add(imported[2], (*within, name))
        names = ", ".join(found[2] for found in _EXPORT.finditer(source))
        body = _EXPORT.sub(r"\1", _IMPORT.sub(_as_declaration, source))
        if left := _LEFT.search(body):
            raise ValueError(f"{name}: cannot bundle {left[0]!r}")
        parts[name] = f'modules["{name}"] = (() => {{\n{body}return {{ {names} }};\n}})();\n'

    add(entry, ())
    return "const modules = {};\n" + "".join(parts.values())


def _source(name: str, folders: tuple[Traversable, ...]) -> str:
    for folder in folders:
        if (folder / name).is_file():
            return (folder / name).read_text(encoding="utf-8")
    raise FileNotFoundError(f"no module {name!r} in {', '.join(map(str, folders))}")


def _as_declaration(imported: re.Match[str]) -> str:
    """An import statement rewritten as a declaration."""
    return f'const {{{imported[1].replace(" as ", ": ")}}} = modules["{imported[2]}"];'
