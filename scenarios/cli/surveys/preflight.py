"""``sottovoce preflight``: before a survey, is everything ready for it?"""

from __future__ import annotations

from pathlib import Path

import click

from protocol.errors import UsageError
from scenarios.cli.numbers import Amount
from scenarios.cli.options import (
    address_of,
    budget_options,
    json_option,
    own_variant_option,
    print_facts,
    print_json,
)
from scenarios.cli.paths import READ_FILE, READ_FOLDER, READ_PATH
from scenarios.cli.transcripts.proofs import check_command
from scenarios.surveys.enrolment.agreed import MOST_PARTIES
from scenarios.surveys.preflight import preflight as what_is_known


@click.command(context_settings={"allow_extra_args": True})
@click.argument("subject", metavar="PLAN|FOLDER", type=READ_PATH)
@click.option(
    "--records", type=READ_FILE, help="A CSV or Parquet file that is to be answered with."
)
@click.option(
    "--plan",
    type=READ_FILE,
    help="With FOLDER and --records: the plan of the survey, which says how the file is read.",
)
@click.option(
    "--connect",
    metavar="HOST:PORT",
    help="With FOLDER: the address at which the aggregator is to wait.",
)
@click.option(
    "--id",
    "ids",
    metavar="NAME",
    help="With --records: the column that says who a respondent is, for what the purse says.",
)
@click.option(
    "--purse",
    type=READ_FOLDER,
    help="The folder of the purse to be paid from, by default the user's.",
)
@click.option(
    "--budget",
    type=Amount(min=0),
    help="The most epsilon, in nats, that a respondent may have spent in all surveys.",
)
@click.option(
    "--parties",
    type=click.IntRange(1, MOST_PARTIES),
    metavar="N",
    help="With PLAN: how many parties are to take part, for what a secure sum withstands.",
)
@own_variant_option
@json_option
@budget_options
def preflight(
    subject: Path,
    records: Path | None,
    plan: Path | None,
    connect: str | None,
    ids: str | None,
    purse: Path | None,
    budget: float | None,
    parties: int | None,
    variant: str | None,
    as_json: bool,
) -> int:
    """Check PLAN, or a member's FOLDER, before a survey: is everything ready for it?

    It says what would be asked and at what cost, and whether certificate, clock, records and
    address fit. Exit 1 if something does not.
    """
    if more := click.get_current_context().args:
        raise UsageError(
            f"{more[0]}: expected one plan or folder to check; is it --records {more[0]}?"
        )
    check_command(subject, "preflight")
    facts = [
        *what_is_known(
            subject,
            variant=variant,
            records=records,
            address=None if connect is None else address_of(connect),
            ids=ids,
            purse=purse,
            budget=budget,
            plan=plan,
            parties=parties,
        )
    ]
    ready = all(fact.ready is not False for fact in facts)
    if as_json:
        print_json({"ready": ready, "facts": [fact._asdict() for fact in facts]})
    else:
        print_facts(facts)
        click.echo("ready" if ready else "NOT ready")
    return 0 if ready else 1
