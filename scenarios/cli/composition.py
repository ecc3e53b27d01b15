"""``sottovoce compose`` and ``shuffle``: what randomized reports cost together; a calculator."""

from __future__ import annotations

import json

import click

from protocol.accounting.events import Randomized
from protocol.accounting.losses import MOST_DRAWS
from protocol.accounting.shuffling import MOST_RESPONDENTS
from protocol.randomizers import KeepUniform
from scenarios.cli.survey import Amount
from scenarios.running.errors import UsageError

_MOST_MECHANISMS = 1000
_EXAMPLE = "such as k=16,epsilon=1 or k=2,p=0.75"

_delta = click.option(
    "--delta",
    type=Amount(min=0, max=1, min_open=True, max_open=True),
    required=True,
    help="The probability for which epsilon need not hold.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command()
@click.option(
    "--mechanism",
    "mechanisms",
    metavar="k=K,epsilon=E | k=K,p=P",
    multiple=True,
    required=True,
    help="Randomized response over K categories, by its epsilon or by the probability of keeping "
    "the answer (else one of all K is drawn); repeat for each.",
)
@click.option(
    "--times",
    type=click.IntRange(1, MOST_DRAWS),
    default=1,
    show_default=True,
    help="How often each of them is answered with.",
)
@_delta
@_json
def compose(mechanisms: tuple[str, ...], times: int, delta: float, as_json: bool) -> None:
    """Say what one respondent's randomized reports cost together.

    The sum of the pure epsilons, epsilon at DELTA by exact composition, and dp-accounting's second
    opinion.
    """
    from protocol.accounting.composition import ExactAccountant, composition
    from protocol.accounting.pld import Opinion, opinion
    from scenarios.report.terminal.privacy import composed_report, composed_values

    if len(mechanisms) > _MOST_MECHANISMS:
        raise UsageError(f"{len(mechanisms)} mechanisms: expected at most {_MOST_MECHANISMS}")
    keeps = [_mechanism(text) for text in mechanisms]
    if times * max(map(keeps.count, keeps)) > MOST_DRAWS:
        raise UsageError(f"more than {MOST_DRAWS:,} draws of one mechanism")
    pairs = ExactAccountant(delta).pairs(Randomized(keep, ()) for keep in keeps).times(times)
    second: Opinion | str
    try:
        second = opinion(pairs, delta)
    except ImportError as error:
        second = str(error)
    figures = composition(pairs, 0.0), composition(pairs, delta), second
    if as_json:
        _print_json(composed_values(keeps, times, *figures))
    else:
        from rich.console import Console

        console = Console(soft_wrap=True)
        for part in composed_report(keeps, times, *figures):
            console.print(part)


@click.command()
@click.option(
    "--n", type=click.IntRange(1, MOST_RESPONDENTS), required=True, help="How many respondents."
)
@click.option(
    "--epsilon",
    type=Amount(min=0, min_open=True),
    required=True,
    help="Of each respondent's own randomizer.",
)
@_delta
@click.option(
    "--k", type=click.IntRange(2, 2**32), help="Also for randomized response over K categories."
)
@_json
def shuffle(n: int, epsilon: float, delta: float, k: int | None, as_json: bool) -> None:
    """Say what N reports cost each respondent if nobody can tell whose is whose.

    Upper bounds on the central epsilon: for any randomizer of EPSILON, and for randomized response.
    """
    from protocol.accounting.shuffling import any_randomizer, randomized_response
    from scenarios.report.terminal.privacy import shuffled_report, shuffled_values

    try:
        every = any_randomizer(epsilon, n=n, delta=delta)
        keep = None if k is None else KeepUniform.with_epsilon(k, epsilon=epsilon)
    except ValueError as error:
        raise UsageError(str(error)) from error
    own = None if keep is None else randomized_response(keep, n=n, delta=delta)
    if as_json:
        _print_json(shuffled_values(every, own, k))
    else:
        from rich.console import Console

        console = Console(soft_wrap=True)
        for part in shuffled_report(every, own, k):
            console.print(part)


def _mechanism(text: str) -> KeepUniform:
    """The randomizer that ``k=16,epsilon=1`` or ``k=2,p=0.75`` describes."""
    given: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or name not in ("k", "epsilon", "p") or name in given:
            raise UsageError(f"--mechanism {text!r}: expected k, and epsilon or p, {_EXAMPLE}")
        given[name] = value
    if "k" not in given or len(given) != 2:
        raise UsageError(f"--mechanism {text!r}: expected k, and either epsilon or p, {_EXAMPLE}")
    try:
        size = int(given["k"])
        if "p" in given:
            return KeepUniform.with_keep(size, p=float(given["p"]))
        return KeepUniform.with_epsilon(size, epsilon=float(given["epsilon"]))
    except ValueError as error:
        raise UsageError(f"--mechanism {text!r}: {error}") from error


def _print_json(values: object) -> None:
    click.echo(json.dumps(values, indent=1, allow_nan=False))
