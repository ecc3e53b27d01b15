"""``sottovoce compose`` and ``shuffle``: a calculator of what randomized reports cost."""

from __future__ import annotations

import click

from protocol.accounting.events import Randomized
from protocol.accounting.losses import MOST_DRAWS
from protocol.accounting.shuffling import MOST_RESPONDENTS
from protocol.randomizers import KeepUniform
from scenarios.cli.options import Amount, delta_option, json_option, print_json, print_report
from scenarios.running.errors import UsageError

_MOST_MECHANISMS = 1000
_EXAMPLE = "such as k=16,epsilon=1 or k=2,p=0.75"


@click.command()
@click.option(
    "--mechanism",
    "mechanisms",
    metavar="k=K,epsilon=E | k=K,p=P",
    multiple=True,
    required=True,
    help="Randomized response over K categories, by its epsilon, or by the probability P of "
    "keeping the answer instead of drawing one of all K; repeat for each.",
)
@click.option(
    "--times",
    type=click.IntRange(1, MOST_DRAWS),
    default=1,
    show_default=True,
    help="Number of answers by each mechanism.",
)
@delta_option
@json_option
def compose(mechanisms: tuple[str, ...], times: int, delta: float, as_json: bool) -> None:
    """Compute what one respondent's randomized reports cost together.

    Prints the sum of the pure epsilons, epsilon at DELTA by exact composition, and a second opinion
    by dp-accounting.
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
        print_json(composed_values(keeps, times, *figures))
    else:
        print_report(composed_report(keeps, times, *figures))


@click.command()
@click.option(
    "--n", type=click.IntRange(1, MOST_RESPONDENTS), required=True, help="Number of respondents."
)
@click.option(
    "--epsilon",
    type=Amount(min=0, min_open=True),
    required=True,
    help="Epsilon of each respondent's own randomizer.",
)
@delta_option
@click.option(
    "--k", type=click.IntRange(2, 2**32), help="Also bound randomized response over K categories."
)
@json_option
def shuffle(n: int, epsilon: float, delta: float, k: int | None, as_json: bool) -> None:
    """Compute what N reports cost each respondent if nobody can tell whose is whose.

    Prints upper bounds on the central epsilon, for any randomizer of EPSILON and for randomized
    response.
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
        print_json(shuffled_values(every, own, k))
    else:
        print_report(shuffled_report(every, own, k))


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
