"""``sottovoce design``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

import click

from parties.keeping.writing import prepare_output, write_whole
from protocol.errors import UsageError
from protocol.estimators.inference.laws import LEVEL, About
from protocol.session.variant import Variant
from protocol.variants import BUILT_IN
from protocol.variants.sums.tallies import Counted
from scenarios.cli.numbers import Amount, Count, Epsilons, Whole
from scenarios.cli.options import is_given, json_option, print_statement, refuse, target_option
from scenarios.cli.paths import READ_FILE, TEXT_WITH_FILE, WRITTEN_FILE
from scenarios.cli.values import frozen_options, option, shared, takes
from scenarios.designing.assumed import Assumption, Given, Shares, Uniform, Worst
from scenarios.designing.candidates import Wanted, own_candidate
from scenarios.designing.designing import Designed, Maker, Row, Setup, rank_designs
from scenarios.designing.needing import (
    Needed,
    coins_needed,
    epsilon_needed,
    list_ways,
    resize,
    respondents_needed,
)
from scenarios.designing.recommending import recommend
from scenarios.designing.simulating import MOST_RUNS
from scenarios.designing.targets import parse_target
from scenarios.errors import printable
from scenarios.files.comma_separated import CsvText, csv_text, write_csv
from scenarios.files.kinds import check_ending
from scenarios.report.beside import Beside
from scenarios.running.loading import find_variant
from scenarios.running.making import ANSWERED_BY_PAGES
from scenarios.running.tabulating import MAX_PEOPLE
from scenarios.statement.designs.needed import state_needed
from scenarios.statement.designs.ranked import state_designs
from scenarios.statement.designs.setting import Values
from scenarios.statement.designs.values import row_values
from scenarios.surveys.survey_plan import Questions, read_questions
from scenarios.wording.formatting import count

_OF_RANKING = ("--variant", "--runs", "--all", "--plot")
"""The options that are of the ranking alone."""


@frozen_options
class DesignOptions:
    """The plan and the options of ``sottovoce design``."""

    plan: Path = shared(click.argument("plan", type=READ_FILE))
    n: int | None = option(
        "--n", type=Count(MAX_PEOPLE), help="How many respondents there will be."
    )
    epsilons: tuple[float, ...] | None = option(
        "--epsilon",
        type=Epsilons(),
        help="What a respondent's reports may cost at most, in nats; several with commas.",
    )
    target: str = shared(target_option)
    error: float | None = option(
        "--error",
        type=Amount(min=0, max=1, min_open=True, max_open=True),
        help="The other way round: how large an epsilon is needed with --n, or how many "
        "respondents with --epsilon, for each share to be estimated to within this, with "
        "probability --level.",
    )
    level: float = option(
        "--level",
        type=Amount(min=0, max=1, min_open=True, max_open=True),
        default=LEVEL,
        show_default=True,
        help="With --error: the probability that a share is estimated so well.",
    )
    parties: int | None = option(
        "--parties",
        type=Count(MAX_PEOPLE),
        help="Number of parties that hold their answers.  [default: one each]",
    )
    dropout: float = option(
        "--dropout",
        type=Amount(min=0, max=1, max_open=True),
        default=0.0,
        show_default=True,
        help="The share of parties that are expected to vanish.",
    )
    assume: Assumption | None = option(
        "--assume",
        type=click.Choice(get_args(Assumption)),
        help="Assumed shares of the answers: all combinations equally likely, or the worst of some "
        "extremes.  [default: uniform; with --error worst]",
    )
    records: Path | None = option(
        "--records",
        type=READ_FILE,
        help="A table of answers in the plan's form; its shares are assumed.",
    )
    about: About = option(
        "--about",
        type=click.Choice(get_args(About)),
        default="respondents",
        show_default=True,
        help="The shares to estimate: those among the respondents, or among a population of which "
        "they are a random sample.",
    )
    delta: float = option(
        "--delta",
        type=Amount(min=0, max=1, min_open=True, max_open=True),
        default=1e-6,
        show_default=True,
        help="The probability that an epsilon at a delta does not hold: the one that is shown "
        "beside, and that of counts with coins and of sums of reports.",
    )
    own: str | None = option(
        "--variant",
        type=TEXT_WITH_FILE,
        metavar="PATH.py:Class",
        help="A variant of your own, ranked with the others; its parameters are those of the plan, "
        "but for its epsilon or keep probability.",
    )
    runs: int = option(
        "--runs",
        type=Whole(2, 10_000),
        default=MOST_RUNS,
        show_default=True,
        help="The most simulated runs of a variant whose error has no formula; fewer if its rank "
        "is certain.",
    )
    every: bool = option("--all", is_flag=True, help="Show every way to set up a variant.")
    out: Path | None = option("--out", type=WRITTEN_FILE, help="A .csv file for all that is found.")
    plot: Path | None = option(
        "--plot", type=WRITTEN_FILE, help="A .png, .svg or .pdf of errors over epsilon."
    )
    as_json: bool = shared(json_option)

    def check(self) -> None:
        """Refuse options that would have no effect, and files that cannot be written.

        Raises:
            UsageError: such options, an unknown suffix, or matplotlib is not installed.
            OSError: a folder cannot be made.
        """
        if self.error is not None:
            refuse(_OF_RANKING, ": expected no --error with it")
        elif is_given("--level"):
            raise UsageError("--level: expected --error too; it is the probability of that error")
        if self.out is not None:
            check_ending("--out", self.out, (".csv",))
            prepare_output(self.out)
        Beside(plot=self.plot).check()

    def setup(self, asked: Questions) -> Setup:
        """Setup of a design: target, respondents, and assumed answers.

        Raises:
            UsageError: options that do not fit together, or not the plan.
        """
        n, shares = self.n, self._shares(asked)
        both = n is not None and self.epsilons is not None
        neither = n is None and self.epsilons is None and self.records is None
        if self.error is not None and (both or neither):
            raise UsageError("--error: expected --n for the epsilon needed, or --epsilon for the n")
        if n is None and isinstance(shares, Given):
            n = len(shares.held)
        if self.error is None and (n is None or self.epsilons is None):
            missing = "--n" if n is None else "--epsilon"
            raise UsageError(f"expected {missing}, or --error in its place")
        people = n or 2
        if self.parties is not None and n is not None and self.parties > n:
            raise UsageError(f"--parties {self.parties:,}: more than the {n:,} respondents of --n")
        return Setup(
            survey=asked.survey,
            target=parse_target(asked.survey, self.target),
            respondents=people,
            parties=self.parties or people,
            shares=shares,
            dropout=self.dropout,
            about=self.about,
            delta=self.delta,
            runs=self.runs,
        )

    def _shares(self, asked: Questions) -> Shares:
        if self.records is not None:
            if self.assume is not None:
                raise UsageError("--assume, --records: expected one of them")
            return Given(asked.coding.records(self.records))
        assume = self.assume or ("uniform" if self.error is None else "worst")
        return Uniform(asked.survey) if assume == "uniform" else Worst(asked.survey)


@click.command()
@takes(DesignOptions)
def design(options: DesignOptions) -> None:
    """Recommend a variant for PLAN, and rank all that apply by the error predicted of them.

    PLAN is a TOML file as 'sottovoce plan' proposes it; it need not name a variant.
    """
    options.check()
    asked = read_questions(options.plan)
    asked.check_unweighted("design")
    setup = options.setup(asked)
    maker = None if options.own is None else _maker(options.own, asked)
    if options.error is not None:
        _print_needed(setup, options.error, options)
    elif options.epsilons is not None:
        _design(setup, options.epsilons, maker, options)


def _csv(rows: Iterable[Values], setup: Setup) -> CsvText:
    """Rows together with the assumptions about the answers."""
    whole = [{**row, "assumed": setup.shares.says} for row in rows]
    return csv_text(whole[0], (row.values() for row in whole))


def _maker(own: str, asked: Questions) -> Maker:
    cls = find_variant(own)

    def make(wanted: Wanted) -> Any:
        return own_candidate(cls, asked.parameters, wanted)

    return make


def _design(
    setup: Setup, epsilons: tuple[float, ...], own: Maker | None, options: DesignOptions
) -> None:
    from scenarios.surveys.watching.bars import ongoing

    with ongoing("design", silent=options.as_json) as progress:
        found = rank_designs(setup, epsilons, own=own, progress=progress)
    if options.out is not None:
        picks = recommend(found.rows)
        rows = ({**row_values(row), "picked": " ".join(picks.named(row))} for row in found.rows)
        write_csv(options.out, _csv(rows, setup))
    if options.plot is not None:
        _draw(found, options.plot)
    print_statement(state_designs(found, every=options.every), as_json=options.as_json)
    _say_written(options)


def _say_written(options: DesignOptions) -> None:
    for path in filter(None, () if options.as_json else (options.out, options.plot)):
        click.echo(printable(f"written: {path}"))


def _draw(found: Designed, plot: Path) -> None:
    from scenarios.report.pictures.curves import Curve, leader, plot_curves
    from scenarios.report.pictures.drawing import rendered
    from scenarios.report.pictures.style import COLOURS

    best = [row for row in found.rows if row.best and row.rests_on != "no bound"]
    ranked = sorted(best, key=lambda row: row.prediction.rmse)
    names = [*dict.fromkeys(map(_curve, ranked))][: len(COLOURS)]
    curves = [
        Curve(
            name,
            [(row.epsilon, row.prediction.rmse) for row in best if _curve(row) == name],
        )
        for name in names
    ]
    setup = found.setup
    people = count(setup.answering, "respondent")
    picture = plot_curves(
        curves,
        title=leader(curves),
        label="predicted error of a share",
        notes=(setup.target.says, f"{people} who answer", f"if {setup.shares.says}"),
    )
    write_whole(plot, rendered(picture, plot.suffix))


def _curve(row: Row) -> str:
    """Name of a curve; ways that rest on honest others have a curve of their own."""
    if row.rests_on == "nothing":
        return row.candidate.family
    return f"{row.candidate.name} (if enough are honest)"


def _print_needed(setup: Setup, error: float, options: DesignOptions) -> None:
    level = options.level
    found = {
        name: _find_needed(setup, cls, error, level, options.epsilons)
        for name, cls in BUILT_IN.items()
    }
    needed = [one for each in found.values() for one in each]
    if not needed:
        raise UsageError(f"no variant with a closed form estimates {setup.target.says} so well")
    needed.sort(key=_order)
    without = [name for name, each in found.items() if not each]
    said = state_needed(setup, error, level, needed, without)
    if options.out is not None:
        write_csv(options.out, _csv(said.values["needed"], setup))
    print_statement(said, as_json=options.as_json)
    _say_written(options)


def _order(one: Needed) -> tuple[bool, float, int, bool]:
    """Sort key: first what holds whoever conspires, then pages before programs."""
    candidate = one.candidate
    page = candidate.family in ANSWERED_BY_PAGES
    return candidate.among is not None, one.epsilon, one.respondents, not page


def _find_needed(
    setup: Setup,
    cls: type[Variant],
    error: float,
    level: float,
    epsilons: tuple[float, ...] | None,
) -> list[Needed]:
    """The least epsilon of a built-in variant, or the respondents that each epsilon takes."""
    ways = list_ways(setup, cls)
    if epsilons is None:
        one = epsilon_needed(setup, ways, error, level)
        return [] if one is None else [one]
    if issubclass(cls, Counted):
        coins = (coins_needed(setup, cls, epsilon, error, level) for epsilon in epsilons)
        return [one for one in coins if one is not None]
    found = []
    for epsilon in epsilons:
        each = [respondents_needed(setup, way, epsilon, error, level) for way in ways(epsilon)]
        best = min(filter(None, each), key=lambda one: one.respondents, default=None)
        found += [] if best is None else [resize(setup, cls, best)]
    return found
