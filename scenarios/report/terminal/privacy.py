"""What accountants find, as lines for a terminal and as values for JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from protocol.accounting.composition import Composition
from protocol.accounting.pld import Opinion
from protocol.accounting.shuffling import Amplification
from protocol.randomizers import KeepUniform

Figure = Composition | Amplification

_PLD = "dp-accounting"
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
                **_values(exact),
                "epsilon": _finite(second.epsilon),
                "method": _method(second),
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
        return
    shown = Text(f"pld: epsilon {second.epsilon:.8g} at delta {second.delta:g}", style="bold")
    yield shown.append(f", at least {second.lower:.8g}", style="not bold")
    yield from _grounds(exact.relation, exact.assumption, _method(second))


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
    return {
        "epsilon": figure.epsilon,
        "delta": figure.delta,
        "relation": figure.relation,
        "assumption": figure.assumption,
        "method": figure.method,
    }


def _finite(value: float) -> float | None:
    """Infinite is where delta is less than what the library itself gives up."""
    return value if math.isfinite(value) else None


def _lines(name: str, figure: Figure) -> Iterator[Text]:
    yield Text(f"{name}: epsilon {figure.epsilon:.8g} at delta {figure.delta:g}", style="bold")
    yield from _grounds(figure.relation, figure.assumption, figure.method)


def _grounds(relation: str, assumption: str, method: str) -> Iterator[Text]:
    yield Text(f"  between  {relation}", style="dim")
    yield Text(f"  assumes  {assumption}", style="dim")
    yield Text(f"  method   {method}", style="dim")


def _method(second: Opinion) -> str:
    return f"{_PLD}, losses rounded up to multiples of {second.interval:.2g}"
