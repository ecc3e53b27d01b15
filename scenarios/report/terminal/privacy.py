"""What accountants find, as lines for a terminal and as values for JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from rich.text import Text

from protocol.accounting.composition import Composition
from protocol.accounting.pld import Opinion
from protocol.accounting.shuffling import Amplification
from protocol.randomizers import KeepUniform

Figure = Composition | Amplification

_LISTED = 20


def composed_values(
    mechanisms: Sequence[KeepUniform],
    times: int,
    pure: Composition,
    exact: Composition,
    second: Opinion | str,
) -> dict[str, Any]:
    """``pure``, ``exact`` and ``pld`` in nats, and under ``figures`` what each rests on.

    Args:
        second: the second opinion, or why there is none.
    """
    return {
        "pure": pure.epsilon,
        "exact": exact.epsilon,
        "pld": None if isinstance(second, str) else _finite(second.epsilon),
        "delta": exact.delta,
        "times": times,
        "mechanisms": [
            {"k": keep.size, "p": keep.keep, "epsilon": keep.epsilon} for keep in mechanisms
        ],
        "figures": {
            "pure": _values(pure),
            "exact": {**_values(exact), "tight": exact.tight},
            "pld": second
            if isinstance(second, str)
            else {
                **_values(seconded(exact, second)),
                "lower": _finite(second.lower),
                "interval": second.interval,
            },
        },
    }


def composed_report(
    mechanisms: Sequence[KeepUniform],
    times: int,
    pure: Composition,
    exact: Composition,
    second: Opinion | str,
) -> Iterator[Text]:
    """The draws, and each figure with its delta, neighbours and assumption.

    Args:
        second: the second opinion, or why there is none.
    """
    counted = Counter(mechanisms)
    for keep, count in list(counted.items())[:_LISTED]:
        yield Text(
            f"{count * times:,} x randomized response over {keep.size:,} categories, "
            f"epsilon {keep.epsilon:.6g}, keeping the answer with probability {keep.keep:.6g}"
        )
    if len(counted) > _LISTED:
        yield Text(f"and {len(counted) - _LISTED:,} more mechanisms")
    yield from _lines("pure", pure)
    yield from _lines("exact", exact)
    if isinstance(second, str):
        yield Text(f"pld: {second}", style="bold")
    else:
        yield from _lines("pld", seconded(exact, second))


def seconded(exact: Composition, second: Opinion) -> Composition:
    """What an exact figure is of, as the second opinion has it, which brackets the true one."""
    least = "infinite" if math.isinf(second.lower) else f"at least {second.lower:.8g}"
    cells = f", with losses in cells of {second.interval:.2g}" if second.interval else ""
    method = f"second opinion, by dp-accounting: {least}{cells}"
    return msgspec.structs.replace(exact, epsilon=second.epsilon, method=method, tight=False)


def shuffled_values(
    every: Amplification, own: Amplification | None, k: int | None
) -> dict[str, Any]:
    """``any_randomizer`` and ``krr`` in nats, and under ``figures`` what each rests on."""
    return {
        "any_randomizer": every.epsilon,
        "krr": None if own is None else own.epsilon,
        "delta": every.delta,
        "n": every.n,
        "epsilon": every.local,
        "k": k,
        "figures": {
            "any_randomizer": _values(every),
            "krr": None if own is None else _values(own),
        },
    }


def shuffled_report(
    every: Amplification, own: Amplification | None, k: int | None
) -> Iterator[Text]:
    """Each bound with its delta, neighbours and assumption."""
    yield Text(f"{every.n:,} respondents, each with a randomizer of epsilon {every.local:.6g}")
    yield from _lines("any randomizer", every)
    if own is not None:
        yield from _lines(f"randomized response over {k:,} categories", own)


def _values(figure: Figure) -> dict[str, Any]:
    names = "delta", "relation", "assumption", "method"
    return {"epsilon": _finite(figure.epsilon), **{name: getattr(figure, name) for name in names}}


def _finite(value: float) -> float | None:
    """Infinite is where delta is less than what the library itself gives up."""
    return value if math.isfinite(value) else None


def _lines(name: str, figure: Figure) -> Iterator[Text]:
    yield Text(f"{name}: epsilon {figure.epsilon:.8g} at delta {figure.delta:g}", style="bold")
    yield Text(f"  between  {figure.relation}", style="dim")
    yield Text(f"  assumes  {figure.assumption}", style="dim")
    yield Text(f"  method   {figure.method}", style="dim")
