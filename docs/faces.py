"""The directive ``face``: all that is imported from a package, by room, as its docstrings say."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective


class Face(SphinxDirective):
    """Describes what ``__all__`` of the module in its argument names.

    With the tag ``pages`` it does not: to check the pages alone takes a third of the time.
    """

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        if self.env.app.tags.has("pages"):
            return []
        text = "\n".join(described(import_module(self.arguments[0])))
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def described(face: ModuleType) -> Iterator[str]:
    """A face as reStructuredText: a section for each room that its names come from."""
    homes = _homes(face)
    rooms: dict[str, list[str]] = {}
    for name in sorted(face.__all__, key=str.lower):
        home = homes.get(name, face.__name__)
        rooms.setdefault(".".join(home.split(".")[:2]), []).append(name)
    yield from (inspect.getdoc(face) or "", "")
    for room, names in sorted(rooms.items()):
        if len(rooms) > 1:
            title = room.rpartition(".")[2].replace("_", " ").capitalize()
            yield from (title, "-" * len(title), "", _summary(import_module(room)), "")
        yield from _listed(face, names)
        for name in names:
            yield from _entry(face, name, homes.get(name, face.__name__))


def _homes(face: ModuleType) -> dict[str, str]:
    """The module of each name, as the face's stub imports it; empty for a face without one."""
    stub = Path(face.__file__ or "").with_suffix(".pyi")
    tree = ast.parse(stub.read_text(encoding="utf-8") if stub.exists() else "")
    return {
        alias.name: f"{face.__name__}.{node.module}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def _listed(face: ModuleType, names: Iterable[str]) -> Iterator[str]:
    yield from (".. list-table::", "   :widths: auto", "")
    for name in names:
        said = _summary(getattr(face, name)) if _directive(face, name) else ""
        yield from (f"   * - :py:obj:`{name} <{face.__name__}.{name}>`", f"     - {said}")
    yield ""


def _entry(face: ModuleType, name: str, home: str) -> Iterator[str]:
    directive = _directive(face, name)
    if directive:
        yield from (f".. {directive}:: {face.__name__}.{name}", "")
        return
    yield from (f".. py:data:: {face.__name__}.{name}", "")
    said = ModuleAnalyzer.for_module(home).find_attr_docs().get(("", name), [])
    yield from (f"   {line}" for line in said)


def _directive(face: ModuleType, name: str) -> str:
    """How autodoc describes it; empty for a constant or another name of a type."""
    found = getattr(face, name)
    if inspect.isclass(found):
        return "autoexception" if issubclass(found, Exception) else "autoclass"
    return "autofunction" if inspect.isroutine(found) else ""


def _summary(found: object) -> str:
    return (inspect.getdoc(found) or "").partition("\n")[0]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("face", Face)
    return {"parallel_read_safe": True}
