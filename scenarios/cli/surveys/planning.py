"""``sottovoce plan``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from parties.keeping.writing import prepare_output, write_whole
from protocol.errors import UsageError
from protocol.session.variant import Variant
from protocol.surveys.survey import Survey
from protocol.variants import PairCounts, RRIndependent, SecureSumVariant
from protocol.variants.sums.tallies import Counted
from scenarios.cli.numbers import Amount, Count, Whole
from scenarios.cli.options import refuse
from scenarios.cli.paths import READ_PATH, WRITTEN_FILE
from scenarios.data.own_tables.plan_text import USUAL, Terms, plan_text
from scenarios.data.own_tables.proposing import BINS, MOST, RARE, propose
from scenarios.designing.summing import EXACT, rests_on
from scenarios.errors import printable
from scenarios.running.parameters import parameters_checked
from scenarios.running.tabulating import MAX_PEOPLE
from scenarios.statement.usefulness.predicted import predicted_verdict
from scenarios.streams import lossless
from scenarios.wording.formatting import count, rest

COUNTING: Mapping[str, type[Counted]] = {cls.name: cls for cls in (SecureSumVariant, PairCounts)}
"""The variants that count true answers."""

MOST_DECISIONS = 12
"""Maximum number of printed decisions."""

NOBODY_YET = "How useful the answers will be depends on how many answer: --n says for how many."
"""The remark on a plan from a form, if no number of respondents was given."""


@click.command(context_settings={"allow_extra_args": True})
@click.option(
    "--from",
    "data",
    type=READ_PATH,
    help="A table of answers: a CSV file, whose delimiter and encoding are found, or a file of "
    "Parquet, SPSS or Stata. Or a form: an XLSForm (.xlsx, or a folder with survey.csv and "
    "choices.csv), or a data dictionary of REDCap.  [required]",
)
@click.option(
    "--variant",
    type=click.Choice((USUAL.variant, *COUNTING)),
    default=USUAL.variant,
    show_default=True,
    help="The protocol: randomized answers, or secure sums of single attributes or of all pairs. "
    "'sottovoce design' ranks all that apply.",
)
@click.option(
    "--epsilon",
    type=Amount(min=0, min_open=True),
    default=USUAL.epsilon,
    show_default=True,
    help="What a respondent's answers may cost, in nats.",
)
@click.option(
    "--noise",
    type=click.Choice(("coins", "none")),
    default="coins",
    show_default=True,
    help="The noise of secure sums: coins, with an epsilon that holds if enough parties are "
    "honest, or none, for exact sums that no epsilon bounds.",
)
@click.option(
    "--delta",
    type=Amount(min=0, max=1, min_open=True, max_open=True),
    default=USUAL.delta,
    show_default=True,
    help="With coins: the probability that the epsilon does not hold.",
)
@click.option(
    "--parties",
    type=Count(MAX_PEOPLE),
    help="With coins: the number of parties that will take part.",
)
@click.option(
    "--n",
    "people",
    type=Count(MAX_PEOPLE),
    help="Number of expected respondents, for the verdict on usefulness.  [default: the rows of "
    "the table]",
)
@click.option("--out", type=WRITTEN_FILE, help="The TOML file for the plan.  [default: print it]")
@click.option(
    "--title", help="Title of the survey.  [default: that of the form, or its file's name]"
)
@click.option(
    "--language",
    help="The language of the questions. In an XLSForm: one that it has, by its name or tag. "
    "Elsewhere: the tag of its words, such as en.  [default: that of the form]",
)
@click.option(
    "--bins",
    type=Whole(min=2),
    default=BINS,
    show_default=True,
    help="Into how many ranges numbers are cut.",
)
@click.option(
    "--most",
    type=Whole(min=3),
    default=MOST,
    show_default=True,
    help="The most categories of an attribute; answers that are rarer are joined.",
)
@click.option(
    "--rare",
    type=Whole(min=1),
    default=RARE,
    show_default=True,
    help="How many rows an answer must have to be a category of its own; in a table of less than "
    "a hundred times as many rows, one of a hundred is enough.",
)
@click.option(
    "--keep-case",
    is_flag=True,
    help="Take texts for different answers that differ by case or blanks alone.",
)
@click.option(
    "--header/--no-header",
    default=None,
    help="Whether the first row of a CSV file names its columns.  [default: it does, and is "
    "refused where it looks like a record]",
)
@click.pass_context
def plan(
    context: click.Context,
    data: Path | None,
    variant: str,
    epsilon: float,
    noise: str,
    delta: float,
    parties: int | None,
    people: int | None,
    out: Path | None,
    title: str | None,
    language: str | None,
    bins: int,
    most: int,
    rare: int,
    keep_case: bool,
    header: bool | None,
) -> None:
    """Propose a plan for a table or a form of your own: attributes, categories, ranges.

    It is a text for a person to read and edit. 'sottovoce preflight PLAN --records FILE' then says
    what is wrong with it, by line and column, or with a table, by row and column. What is lost by a
    plan, such as rare answers that are joined, is named in it. Categories that are made from
    answers reveal something of them.
    """
    if data is None:
        raise UsageError(
            "expected --from FILE, a table of answers; 'sottovoce preflight PLAN' checks a plan"
        )
    if context.args:
        context.fail(f"Got unexpected extra argument ({context.args[0]})")
    if out is not None and out.exists():
        raise UsageError(f"{out}: exists; give another name, or delete it first")
    if out is not None:
        prepare_output(out)
    proposal = propose(
        data,
        bins=bins,
        most=most,
        rare=rare,
        ignore_case=not keep_case,
        header=header,
        language=language,
    )
    if proposal.is_of_form:
        refuse(("--rare", "--keep-case", "--header"), ": a form has no answers")
    title = printable(title or proposal.title or data.stem)
    asked = [question for each in proposal.columns for question in each.questions]
    survey = Survey(title, tuple(question.attribute() for question in asked))
    made: Variant
    if variant in COUNTING:
        terms, made = _counting(variant, survey, epsilon, noise, delta, parties)
        click.echo(EXACT if parties is None else rests_on(made, parties, delta), err=True)
    else:
        refuse(("--noise", "--delta", "--parties"), f": expected --variant {' or '.join(COUNTING)}")
        terms = USUAL._replace(epsilon=epsilon)
        made = RRIndependent.with_epsilon(survey, epsilon)
    expected = people or max(proposal.rows, parties or 0)
    remark = _as_proposed(made, expected, parties) if expected else NOBODY_YET
    text = plan_text(proposal, title, terms, remark)
    click.echo(printable(remark), err=True)
    _say_decisions(proposal.decisions(), out is not None)
    if out is None:
        click.echo(lossless(text), nl=False)
        return
    write_whole(out, text)
    left = [each.column for each in proposal.columns if not each.questions]
    without = f", without {', '.join(left)}" if left else ""
    of = count(len(proposal.columns), "question")
    if not proposal.is_of_form:
        of = count(proposal.rows, "row")
    click.echo(printable(f"{of}, {count(len(asked), 'attribute')}{without}"), err=True)
    click.echo(f"written: {out}")
    records = "EXPORTED.csv" if proposal.is_of_form else str(data)
    tried = shlex.join(("sottovoce", "run", str(out), "--records", records))
    click.echo(f"once you have read it, try it: {tried}")


def _as_proposed(variant: Variant, people: int, parties: int | None) -> str:
    """Predicted usefulness of the proposed plan, with what would improve it."""
    verdict = predicted_verdict(variant, people, parties)
    found = f"As proposed, with {count(people, 'respondent')}: {verdict.word}. {verdict.off}"
    return found if verdict.mending is None else f"{found} {verdict.mending.says}"


def _say_decisions(decisions: Sequence[str], is_written: bool) -> None:
    """List the first decisions that a person has to make."""
    if not decisions:
        return
    click.echo("to decide:", err=True)
    for each in decisions[:MOST_DECISIONS]:
        click.echo(printable(f"  {each}"), err=True)
    if more := rest(len(decisions), MOST_DECISIONS):
        click.echo(f"  {more}, in the {'file' if is_written else 'plan'}", err=True)


def _counting(
    variant: str, survey: Survey, epsilon: float, noise: str, delta: float, parties: int | None
) -> tuple[Terms, Counted]:
    """The terms of secure sums, and their variant.

    Raises:
        UsageError: options without effect, coins for nobody knows how many, or for too few, or
            nothing to count.
    """
    if noise == "none":
        refuse(("--epsilon", "--delta", "--parties"), ": no epsilon bounds sums with --noise none")
        with parameters_checked():
            return Terms(variant, None, noise), COUNTING[variant].with_noise(survey, "none")
    if parties is None:
        raise UsageError(
            "expected --parties, the number that will take part, which sizes the coins; or --noise "
            "none, for exact sums, which no epsilon bounds"
        )
    with parameters_checked():
        made = COUNTING[variant].with_noise(survey, epsilon=epsilon, delta=delta, parties=parties)
        return Terms(variant, epsilon, noise, delta, parties), made
