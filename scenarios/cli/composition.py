"""``sottovoce compose`` and ``shuffle``: a calculator for the cost of randomized reports."""

from __future__ import annotations

from collections import Counter

import click

from protocol.accounting.events import Randomized
from protocol.accounting.losses import MOST_DRAWS
from protocol.accounting.shuffling import MOST_RESPONDENTS
from protocol.errors import UsageError
from protocol.randomizers import KeepUniform
from scenarios.cli.numbers import Amount, Whole
from scenarios.cli.options import delta_option, json_option, print_statement
from scenarios.errors import install_command
from scenarios.wording.formatting import rest

_MOST_MECHANISMS = 1000
_LISTED = 20
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
    type=Whole(1, MOST_DRAWS),
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
    from protocol.accounting.composition import Composition, ExactAccountant, composition
    from protocol.accounting.pld import opinion
    from scenarios.statement.compositions import figure_values, seconded, state_figures

    if len(mechanisms) > _MOST_MECHANISMS:
        raise UsageError(f"{len(mechanisms)} mechanisms: expected at most {_MOST_MECHANISMS}")
    keeps = [_mechanism(text) for text in mechanisms]
    if times * max(map(keeps.count, keeps)) > MOST_DRAWS:
        raise UsageError(f"more than {MOST_DRAWS:,} draws of one mechanism")
    pairs = ExactAccountant(delta).pairs(Randomized(keep, ()) for keep in keeps).times(times)
    pure, exact = composition(pairs, 0.0), composition(pairs, delta)
    second: Composition | str
    bracket: object
    try:
        found = opinion(pairs, delta)
    except ImportError as error:
        second = bracket = f"{error}: {install_command('accounting')}"
    else:
        second = seconded(exact, found)
        bracket = {**figure_values(second), "lower": found.lower, "interval": found.interval}
    values = {
        "pure": pure.epsilon,
        "exact": exact.epsilon,
        "pld": None if isinstance(second, str) else second.epsilon,
        "delta": delta,
        "times": times,
        "mechanisms": [{"k": k.size, "p": k.keep, "epsilon": k.epsilon} for k in keeps],
        "figures": {
            "pure": figure_values(pure),
            "exact": {**figure_values(exact), "tight": exact.tight},
            "pld": bracket,
        },
    }
    counted = Counter(keeps)
    composed = [
        f"{count * times:,} x randomized response over {keep.size:,} categories, "
        f"epsilon {keep.epsilon:.6g}, keeping the answer with probability {keep.keep:.6g}"
        for keep, count in list(counted.items())[:_LISTED]
    ]
    if more := rest(len(counted), _LISTED, "mechanisms"):
        composed.append(more)
    figures = {"pure": pure, "exact": exact, "pld": second}
    print_statement(state_figures(composed, figures, values), as_json=as_json)


@click.command()
@click.option("--n", type=Whole(1, MOST_RESPONDENTS), required=True, help="Number of respondents.")
@click.option(
    "--epsilon",
    type=Amount(min=0, min_open=True),
    required=True,
    help="Epsilon of each respondent's own randomizer.",
)
@delta_option
@click.option("--k", type=Whole(2, 2**32), help="Also bound randomized response over K categories.")
@json_option
def shuffle(n: int, epsilon: float, delta: float, k: int | None, as_json: bool) -> None:
    """Compute what N reports cost each respondent if nobody can tell whose is whose.

    Prints upper bounds on the central epsilon, for any randomizer of EPSILON and for randomized
    response.
    """
    from protocol.accounting.shuffling import any_randomizer, randomized_response
    from scenarios.statement.compositions import figure_values, state_figures

    try:
        every = any_randomizer(epsilon, n=n, delta=delta)
        keep = None if k is None else KeepUniform.with_epsilon(k, epsilon=epsilon)
    except ValueError as error:
        raise UsageError(str(error)) from error
    own = None if keep is None else randomized_response(keep, n=n, delta=delta)
    values = {
        "any_randomizer": every.epsilon,
        "krr": None if own is None else own.epsilon,
        "delta": every.delta,
        "n": every.n,
        "epsilon": every.local,
        "k": k,
        "figures": {
            "any_randomizer": figure_values(every),
            "krr": None if own is None else figure_values(own),
        },
    }
    whom = f"{every.n:,} respondents, each with a randomizer of epsilon {every.local:.6g}"
    figures = {"any randomizer": every}
    if own is not None:
        figures[f"randomized response over {k:,} categories"] = own
    print_statement(state_figures([whom], figures, values), as_json=as_json)


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
    for name, value in given.items():
        kind, words = (int, "a whole number") if name == "k" else (float, "a number")
        try:
            kind(value)
        except ValueError:
            raise UsageError(f"--mechanism {text!r}: {name} {value!r}: expected {words}") from None
    try:
        size = int(given["k"])
        if "p" in given:
            return KeepUniform.with_keep(size, p=float(given["p"]))
        return KeepUniform.with_epsilon(size, epsilon=float(given["epsilon"]))
    except ValueError as error:
        raise UsageError(f"--mechanism {text!r}: {error}") from error
