"""``sottovoce preflight``: before a survey, is everything ready for it?"""

from __future__ import annotations

from pathlib import Path

import click

from protocol.accounting.spending import DELTA
from protocol.errors import UsageError
from protocol.session.variant import Variant
from scenarios.cli.numbers import Amount, Whole
from scenarios.cli.options import (
    budget_options,
    json_option,
    own_variant_option,
    parse_address,
    print_facts,
    print_json,
)
from scenarios.cli.paths import READ_FILE, READ_FOLDER, READ_PATH
from scenarios.cli.transcripts.proofs import check_command
from scenarios.cli.values import frozen_options, option, shared, takes
from scenarios.surveys.enrolment.agreed import MOST_PARTIES
from scenarios.surveys.preflight import preflight as what_is_known


@frozen_options
class PreflightOptions:
    """The plan or folder and the options of ``sottovoce preflight``."""

    subject: Path = shared(click.argument("subject", metavar="PLAN|FOLDER", type=READ_PATH))
    records: Path | None = option(
        "--records", type=READ_FILE, help="The CSV or Parquet file with the answers."
    )
    plan: Path | None = option(
        "--plan",
        type=READ_FILE,
        help="With FOLDER and --records: the plan of the survey, which says how the file is read.",
    )
    connect: str | None = option(
        "--connect",
        metavar="HOST:PORT",
        help="With FOLDER: the address at which the aggregator is to wait.",
    )
    ids: str | None = option(
        "--id",
        metavar="NAME",
        help="With --records: the column of respondents' ids, to look them up in the purse.",
    )
    purse: Path | None = option(
        "--purse",
        type=READ_FOLDER,
        help="The folder of the purse, by default the user's.",
    )
    budget: float | None = option(
        "--budget",
        type=Amount(min=0),
        help="The most epsilon, in nats, that a respondent may have spent in all surveys.",
    )
    honest: int | None = option(
        "--honest",
        type=Whole(min=1),
        metavar="H",
        help="With --budget: the honest parties that a party demands, as in 'answer'.",
    )
    delta: float | None = option(
        "--delta",
        type=Amount(min=0, max=1, min_open=True, max_open=True),
        metavar="D",
        help="With --honest: the most delta that a respondent may have spent in all surveys, "
        f"by default {DELTA:g}.",
    )
    parties: int | None = option(
        "--parties",
        type=Whole(1, MOST_PARTIES),
        metavar="N",
        help="With PLAN: the number of parties, for the coalitions that a secure sum withstands "
        "and the verdict on usefulness.",
    )
    variant: str | None = shared(own_variant_option)
    as_json: bool = shared(json_option)


@click.command(context_settings={"allow_extra_args": True})
@takes(PreflightOptions)
@budget_options
def preflight(options: PreflightOptions) -> int:
    """Check PLAN, or a member's FOLDER, before a survey: is everything ready for it?

    It says what would be asked and at what cost, and whether certificate, clock, records and
    address fit. Exit 1 if something does not.
    """
    if more := click.get_current_context().args:
        raise UsageError(
            f"{more[0]}: expected one plan or folder to check; is it --records {more[0]}?"
        )
    check_command(options.subject, "preflight")
    connect = options.connect
    facts = [
        *what_is_known(
            options.subject,
            variant=options.variant,
            records=options.records,
            address=None if connect is None else parse_address(connect),
            ids=options.ids,
            purse=options.purse,
            budget=options.budget,
            honest=options.honest,
            delta=options.delta,
            plan=options.plan,
            parties=options.parties,
            useful=_useful,
        )
    ]
    ready = all(fact.ready is not False for fact in facts)
    if options.as_json:
        print_json({"ready": ready, "facts": [fact._asdict() for fact in facts]})
    else:
        print_facts(facts)
        click.echo("ready" if ready else "NOT ready")
    return 0 if ready else 1


def _useful(variant: Variant, respondents: int) -> str:
    # Imported late, as it knows all variants.
    from scenarios.statement.usefulness.predicted import predicted_sentence

    return predicted_sentence(variant, respondents)
