"""``sottovoce status``: attempts at a survey, and manual interventions."""

from __future__ import annotations

from pathlib import Path

import click
from msgspec.structs import asdict

from parties.keeping.attempts import attempts_in
from scenarios.cli.options import json_option, own_variant_option, print_json
from scenarios.cli.surveys.answering import folder_argument, member_in
from scenarios.errors import printable
from scenarios.surveys.holding.attempts import check_aggregator
from scenarios.surveys.operating.by_hand import Act, acts_in


@click.command()
@folder_argument
@own_variant_option
@json_option
def status(folder: Path, variant: str | None, as_json: bool) -> None:
    """Show the attempts at the survey of the aggregator's FOLDER, and what was done by hand.

    That is who has begun, resumed, closed or abandoned it, or moved a record aside, and when. What
    parties say or do is in the record.
    """
    check_aggregator(member_in(folder, variant))
    attempts, acts = attempts_in(folder), acts_in(folder)
    if as_json:
        states = [{"attempt": each.attempt, "state": each.state} for each in attempts]
        print_json({"attempts": states, "by hand": [asdict(act) for act in acts]})
        return
    for each in attempts:
        click.echo(f"attempt {each.attempt}: {each.state}")
    if not attempts:
        click.echo("no attempt has begun")
    for act in acts:
        click.echo(printable(_line(act)))


def _line(act: Act) -> str:
    attempt = "" if act.attempt is None else f"attempt {act.attempt}"
    said = ", ".join(filter(None, (act.done, attempt, act.wait)))
    return f"{act.time} {said}: {act.user}, pid {act.pid}"
