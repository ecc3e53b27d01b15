"""``sottovoce purse``: spending of respondents over all surveys, and merging of purses."""

from __future__ import annotations

import functools
from pathlib import Path

import click

from parties.keeping.purse import usual_purse
from scenarios.cli.options import json_option, own_variant_option, print_facts, print_json
from scenarios.cli.paths import READ_FOLDER
from scenarios.cli.surveys.answering import member_in
from scenarios.errors import say
from scenarios.surveys.purses import known_facts, listing, merge_into
from scenarios.wording.formatting import count


@click.command()
@click.option(
    "--purse",
    "folder",
    type=READ_FOLDER,
    help="The folder of the purse, by default the user's: $XDG_STATE_HOME/sottovoce/purse.",
)
@click.option(
    "--merge",
    "sources",
    type=READ_FOLDER,
    multiple=True,
    metavar="FOLDER",
    help="Add what the purse lacks of another purse, or an older copy, or of what was spent from a "
    "member's folder; repeat for each. Nothing is taken back.",
)
@own_variant_option
@json_option
def purse(
    folder: Path | None, sources: tuple[Path, ...], variant: str | None, as_json: bool
) -> None:
    """Show what people have spent over all surveys: how much, in which, and what that rests on.

    Nobody is named: a purse knows people by keyed hashes. With --merge, first rebuild one that was
    lost or is too old.
    """
    folder = folder or usual_purse()
    if sources:
        added = merge_into(folder, sources, functools.partial(member_in, variant=variant))
        say(f"{folder}: {count(added, 'line')} added")
    found = listing(folder)
    if as_json:
        print_json(found)
    else:
        print_facts([*known_facts(found)])
