"""The documentation as a site: Sphinx over the pages of this folder, without the network."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from docutils import nodes
from pygments.lexers.special import TextLexer
from sphinx import addnodes
from sphinx.application import Sphinx

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

project = "sottovoce"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "faces", "options"]

# Headings have the anchors that a code host gives them.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
highlight_language = "text"

autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_type_aliases = {"ArrayLike": "ArrayLike"}
napoleon_use_ivar = True
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = "sottovoce"
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#23548c", "color-brand-content": "#23548c"},
    "dark_css_variables": {"color-brand-primary": "#8dbdf0", "color-brand-content": "#8dbdf0"},
}


def setup(app: Sphinx) -> None:
    app.add_lexer("csv", TextLexer)  # Pygments has none.
    app.connect("autodoc-skip-member", _skip_fields)
    app.connect("autodoc-process-docstring", _keep_colons, priority=100)
    app.connect("doctree-read", _link_files, priority=100)


def _skip_fields(
    app: Sphinx, what: str, name: str, found: object, skip: bool, options: object
) -> bool | None:
    """Leave out the fields of named tuples, which the docstring of the class describes."""
    return True if (found.__doc__ or "").startswith("Alias for field number") else None


def _keep_colons(
    app: Sphinx, what: str, name: str, found: object, options: object, lines: list[str]
) -> None:
    """Keep Napoleon from taking what stands before a colon for the type of an attribute."""
    if what in ("attribute", "data", "property"):
        lines.insert(0, "")


def _link_files(app: Sphinx, doctree: nodes.document) -> None:
    """Make links to Markdown files outside this folder links to files, as those to others are."""
    for link in list(doctree.findall(addnodes.pending_xref)):
        if link.get("refdomain") == "doc" and os.path.isabs(link["reftarget"]):
            target = os.path.relpath(f"{link['reftarget']}.md", app.srcdir)
            file = addnodes.download_reference("", "", *link.children, reftarget=f"/{target}")
            link.replace_self(file)
