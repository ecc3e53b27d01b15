"""``sottovoce compare``."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import click

from parties.keeping.writing import write_whole
from protocol.errors import UsageError
from protocol.estimators.projection import Projection
from protocol.session.variant import Variant, plain_parameters
from scenarios.cli.completion import complete_variants
from scenarios.cli.engines import EngineChoice, sweeping
from scenarios.cli.numbers import Amount, Epsilons, Whole
from scenarios.cli.options import SEEDS, json_option, json_text, print_statement, target_option
from scenarios.cli.paths import READ_FILE, TEXT_WITH_FILE, WRITTEN_FILE, WrittenFolder
from scenarios.cli.values import frozen_options, option, part, shared, takes
from scenarios.files.comma_separated import csv_text, write_csv
from scenarios.files.pieces import PIECES
from scenarios.running.engines.carrying import own_files
from scenarios.running.engines.sweep import code_versions

CSV = "compare.csv"
JSON = "compare.json"
"""The names of the results in the folder of ``--out``."""

FEW_LIVE = 10
"""Over how many parties answers are dealt where nobody vanishes: but for what is sized for parties,
such as coins, what comes of it has one law by however many, and more take longer."""


def _names(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    names = []
    for text in texts:
        names += [name.strip() for name in text.split(",")]
        if not all(names):
            raise UsageError(f"--variant {text}: expected names with commas between them")
    return tuple(dict.fromkeys(names))


@frozen_options
class CompareOptions:
    """The plan and the options of ``sottovoce compare``."""

    plan: Path = shared(click.argument("plan", type=READ_FILE))
    records: Path = option(
        "--records",
        type=READ_FILE,
        required=True,
        help="The answers that variants are compared on: a table as the plan says.",
    )
    names: tuple[str, ...] = option(
        "--variant",
        multiple=True,
        required=True,
        type=TEXT_WITH_FILE,
        metavar="NAME,NAME,...",
        callback=_names,
        shell_complete=complete_variants,
        help="What to compare, each with parameters for an epsilon: variants, or PATH.py:Class of "
        "your own. spl:oue is spl with that oracle, and so is oue alone; spl is spl with each.",
    )
    epsilons: tuple[float, ...] = option(
        "--epsilon",
        type=Epsilons(),
        required=True,
        help="What a respondent's reports may cost at most, in nats.",
    )
    target: str = shared(target_option)
    runs: int = option(
        "--runs",
        type=Whole(1, 10**6),
        default=100,
        show_default=True,
        help="Number of simulated surveys of each variant at each epsilon.",
    )
    parties: int | None = option(
        "--parties",
        type=Whole(1, 10**6),
        help="Number of parties that the answers are dealt to, if messages are sent or parties "
        "vanish.  [default: 10; 100 with --dropout]",
    )
    dropout: float = option(
        "--dropout",
        type=Amount(min=0, max=1, max_open=True),
        default=0.0,
        show_default=True,
        help="The probability with which a party vanishes before it answers.",
    )
    delta: float = option(
        "--delta",
        type=Amount(min=0, max=1, min_open=True, max_open=True),
        default=1e-6,
        show_default=True,
        help="The probability with which the epsilon of counts with coins, and of sums of reports, "
        "may not hold.",
    )
    project: Projection = option(
        "--project",
        type=click.Choice(get_args(Projection)),
        default="none",
        show_default=True,
        help="Also measure the errors of tables that are projected so.",
    )
    seed: int | None = option(
        "--seed",
        type=SEEDS,
        help="Decides all randomness: the same seed gives the same result.  [default: drawn]",
    )
    out: Path | None = option(
        "--out",
        type=WrittenFolder(CSV, JSON, PIECES),
        help=f"The folder for {CSV} and {JSON}. If the work is ended midway, the same command does "
        "the rest. An earlier result there is replaced.",
    )
    plot: Path | None = option(
        "--plot",
        type=WRITTEN_FILE,
        help="A .png, .svg or .pdf file to draw the errors over epsilon into; needs matplotlib.",
    )
    engine: EngineChoice = part(EngineChoice)
    as_json: bool = shared(json_option)

    def dealt(self, records: int) -> int:
        """Number of parties for so many records.

        Raises:
            UsageError: ``--parties`` has more.
        """
        if self.parties is not None and self.parties > records:
            raise UsageError(f"--parties {self.parties}: more than the {records} records")
        from scenarios.surveys.trial import LIVE

        return self.parties or min(LIVE if self.dropout else FEW_LIVE, records)


@click.command()
@takes(CompareOptions)
def compare(options: CompareOptions) -> None:
    """Compare the errors of variants on the answers in --records, asked as PLAN says.

    Each variant is run many times, and its errors are measured against the true shares. Beside them
    stand the predicted errors, and the Monte Carlo errors by which the two may differ. The plan's
    own variant is run only if --variant names it.
    """
    from scenarios.designing.candidates import Wanted
    from scenarios.designing.comparing.choosing import choose_candidates, parse_name
    from scenarios.designing.comparing.comparison import Compared
    from scenarios.designing.comparing.comparison import compare as compared
    from scenarios.designing.targets import parse_target
    from scenarios.report.beside import Beside
    from scenarios.statement.comparisons import state_comparison
    from scenarios.surveys.survey_plan import read_questions

    out, plot, dropout = options.out, options.plot, options.dropout
    Beside(plot=plot).check()
    asked = read_questions(options.plan)
    asked.check_unweighted("compare")
    survey = asked.survey
    tables = parse_target(survey, options.target)
    meant = [parse_name(name) for name in options.names]
    held = asked.coding.records(options.records)
    dealt = options.dealt(len(held))
    what = [
        Compared(epsilon, each)
        for epsilon in options.epsilons
        for wanted in (Wanted(survey, epsilon, tables, dealt, dropout, options.delta),)
        for each in choose_candidates(meant, wanted, asked.parameters)
    ]
    settings = {
        "plan": survey.digest.hex(),
        "records": hashlib.sha256(held.codes.tobytes()).hexdigest(),
        "epsilon": options.epsilons,
        "target": tables.says,
        "runs": options.runs,
        "parties": dealt,
        "dropout": dropout,
        "delta": options.delta,
        "project": options.project,
        "seed": options.seed,
    }
    about = _about([each.candidate.variant for each in what], settings)
    result = None if out is None else out / JSON
    with sweeping(survey.title, options.engine, result, about, silent=options.as_json) as sweep:
        done = compared(
            what,
            held,
            tables,
            runs=options.runs,
            seed=secrets.randbits(64) if options.seed is None else options.seed,
            parties=dealt,
            dropout=dropout,
            projection=options.project,
            carried=sweep,
        )
        said = state_comparison(done)
        rows = said.values["rows"]
        text = json_text(said.values)
        written = []
        if out is not None:
            write_csv(out / CSV, csv_text(rows[0], (row.values() for row in rows)), private=True)
            write_whole(out / JSON, text + "\n", private=True)
            written = [out / CSV, out / JSON]
            sweep.finish()
        if plot is not None:
            from scenarios.report.pictures.comparisons import plot_comparison
            from scenarios.report.pictures.drawing import rendered

            write_whole(plot, rendered(plot_comparison(done), plot.suffix))
            written.append(plot)
    if options.as_json:
        click.echo(text)
        return
    print_statement(said)
    if written:
        click.echo(f"written: {', '.join(map(str, written))}")


def _about(variants: Sequence[Variant | None], settings: Mapping[str, object]) -> dict[str, Any]:
    asked = [
        None if variant is None else [variant.name, plain_parameters(variant)]
        for variant in variants
    ]
    return {
        "command": "compare",
        **settings,
        "variants": asked,
        **code_versions(own_files(variants)),
    }
