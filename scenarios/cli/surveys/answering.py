"""``sottovoce answer``: a party of a survey, with as few imports as it needs."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import click
import trio

from parties.keeping.members import Member
from parties.keeping.receipts import Kept
from protocol.accounting.spending import DELTA, Cost, assumed, largest
from protocol.errors import PrivacyError
from protocol.messages import DONE
from protocol.transcript.receipts import COUNTED, LATE, NOT_YET_KNOWN, Word
from scenarios.cli.numbers import Amount, Whole
from scenarios.cli.options import own_variant_option, parse_address
from scenarios.cli.paths import READ_FILE, READ_FOLDER
from scenarios.cli.values import gathers
from scenarios.errors import COMPLAINT, printable, say
from scenarios.files.budget import within_usual_budget
from scenarios.surveys.answering import Answering, answer_survey
from scenarios.surveys.endings import NO_BUDGET, Ending
from scenarios.surveys.members import CHARTER, ROSTER, read_member
from scenarios.wording.announced import described
from scenarios.wording.withstanding import coins_sentence, sums_sentences
from transports.lasting.link import PATIENCE

folder_argument = click.argument("folder", type=READ_FOLDER)
"""The folder of a member."""


def member_in(folder: Path, variant: str | None) -> Member:
    """The member in a folder.

    Raises:
        CannotFinishError: it asks for more time or memory than is allowed.
        UsageError: it does not fit.
    """
    # The folder's content is untrusted.
    with within_usual_budget(folder / CHARTER, folder / ROSTER):
        return read_member(folder, variant)


answering_options = gathers(
    "answering",
    Answering,
    click.option(
        "--records",
        type=READ_FILE,
        required=True,
        help="A CSV or Parquet file with a row for each respondent and a column for each "
        "attribute.",
    ),
    click.option(
        "--plan",
        type=READ_FILE,
        help="The plan of the survey, which says how the file is read. By default its cells are "
        "the categories.",
    ),
    click.option(
        "--budget",
        type=Amount(min=0),
        help="The most epsilon, in nats, that a respondent may have spent in all surveys: the "
        "party does not answer if somebody has too little left, and declines if asked for more. By "
        "default all attempts at this survey may cost what one does at most.",
    ),
    click.option(
        "--id",
        "ids",
        metavar="NAME",
        help="The column of the records that says who a respondent is: each pays from a purse of "
        "their own. It is not handed over. By default the whole file pays as one.",
    ),
    click.option(
        "--same",
        is_flag=True,
        help="With --id: ids that read alike, such as 0417 and 417, are of one person and share "
        "one purse, in this file and with earlier answers. By default the command asks.",
    ),
    click.option(
        "--different",
        metavar="CODE",
        help="With --id: ids that read alike are of different people. CODE is printed with the "
        "question and answers no other question.",
    ),
    click.option(
        "--purse",
        type=READ_FOLDER,
        help="The folder that keeps what was spent, over all surveys. By default, that of the "
        "user: $XDG_STATE_HOME/sottovoce/purse.",
    ),
    click.option(
        "--withstand",
        type=Whole(min=0),
        metavar="C",
        help="Decline a secure sum that C parties who conspire with the aggregator can break, "
        "before anything is contributed, counting on honest witnesses where some certify it. By "
        "default the survey's figure is enough.",
    ),
    click.option(
        "--honest",
        type=Whole(min=1),
        metavar="H",
        help="Decline a secure sum that promises fewer than H honest parties, this one included, "
        "when as many are missing and conspire as it allows. Consent to a sum with coins, whose "
        "epsilon holds at a delta if H parties are honest; without this a party with a budget "
        "declines it.",
    ),
    click.option(
        "--delta",
        type=Amount(min=0, max=1, min_open=True, max_open=True),
        metavar="D",
        help="With --honest: the most delta that a respondent may have spent in all surveys. Each "
        f"sum with coins is judged at {DELTA:g}, or at D if it is less. By default {DELTA:g}, one "
        "sum's.",
    ),
)
"""Options for the answers of a party and its terms; the command gets ``answering``."""


@click.command()
@folder_argument
@own_variant_option
@click.option(
    "--connect",
    metavar="HOST:PORT",
    required=True,
    help="The address at which the aggregator waits.",
)
@answering_options
@click.option(
    "--repeat",
    type=READ_FOLDER,
    metavar="FOLDER",
    help="Repeat the report that was given from FOLDER, this folder or that of an earlier survey "
    "with the same question. It costs nothing more, and shows that both are from one party.",
)
@click.option(
    "--waiting",
    type=Amount(min=0),
    default=PATIENCE,
    show_default=True,
    help="Seconds to wait for a silent aggregator, at the start and later on. While it is alive, "
    "wait however long the survey takes.",
)
def answer(
    folder: Path,
    variant: str | None,
    connect: str,
    answering: Answering,
    repeat: Path | None,
    waiting: float,
) -> int:
    """Answer, as the party whose keys are in FOLDER, with the records of a table.

    It is done once the party's folder has a receipt: by it the aggregator has signed that the whole
    answer is on its disk. Otherwise the last lines say what was spent, what is acknowledged and
    what to do next. The exit code is 75 if the same command should be run again, or if the answer
    came too late to be counted, 69 if the aggregator was not reached, 77 if it turned the party
    away.
    """
    host, port = parse_address(connect)
    member = member_in(folder, variant)
    if member.charter.analysis is not None:
        say(f"announced: {described(member.charter.analysis)}")
    asked, parties = member.charter.variant, len(member.charter.roster) - 1
    for said in sums_sentences(asked, parties):
        say(said)
    if coins := coins_sentence(asked, parties):
        say(coins)
    asking = functools.partial(
        answer_survey,
        member,
        answering,
        host=host,
        port=port,
        repeat=None if repeat is None else member_in(repeat, variant),
        waiting=waiting,
        heeds_signals=True,
    )
    try:
        answered = trio.run(asking)
    except PrivacyError as error:
        return _complain(NO_BUDGET, str(error), "nothing more spent")
    spent = _cost_sentence(answered.spent, answered.before, answered.attempt)
    if answered.repeated:
        spent += "; it was the report given before, so both can be linked"
    if answered.trouble:
        return _complain(answered.how, answered.ending, spent)
    if answered.earlier:
        how = "was done with" if answered.ending == DONE else "was late in"
        known = f"this party {how} attempt {answered.attempt} before"
        say(f"the aggregator sent nothing more; {known}")
    click.echo(printable(f"{answered.ending}; {spent}"))
    if answered.receipt is not None:
        click.echo(printable(f"{_receipt_word(answered.receipt)}: {answered.receipt.receipt}"))
        click.echo(printable(f"check it with: {answered.receipt.check}"))
        if not answered.receipt.problems:
            click.echo(f"counted: {_COUNTED[answered.receipt.word]}")
    else:
        click.echo(f"acknowledged: {answered.how.acknowledged}")
    if answered.code:
        click.echo(f"next: {answered.how.following}")
    return answered.code


def _complain(how: Ending, why: str, spent: str) -> int:
    """Report in one line why a party could not go on; return the exit code."""
    said = f"acknowledged: {how.acknowledged}; next: {how.following}"
    say(f"{COMPLAINT}{' '.join(f'{why}; {spent}; {said}'.split())}")
    return how.code


def _cost_sentence(spent: Cost, before: Cost, attempt: int) -> str:
    """Cost per respondent: in this attempt, and in earlier ones."""
    if not attempt:
        return "nothing spent"
    said = f"{_figure(spent)} spent per respondent"
    if attempt > 1:
        earlier = _figure(before) if before.delta else f"{before.epsilon:.6g}"
        said += f" in attempt {attempt}, {earlier} in earlier ones"
    return f"{said}{assumed(largest((spent, before)).honest)}"


def _figure(cost: Cost) -> str:
    return str(Cost(cost.epsilon, cost.delta))


_COUNTED: Mapping[Word, str] = {
    COUNTED: "yes",
    LATE: "no, it came too late",
    NOT_YET_KNOWN: "not yet known; the published record will show it",
}


def _receipt_word(kept: Kept) -> str:
    if kept.problems:
        return "kept as evidence"
    return "late note" if kept.late else "receipt"
