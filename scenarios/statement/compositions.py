"""What accountants find, as values."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import msgspec

from protocol.accounting.composition import Composition
from protocol.accounting.pld import Opinion
from protocol.accounting.shuffling import Amplification

Figure: TypeAlias = Composition | Amplification


def figure_values(figure: Figure) -> dict[str, Any]:
    """A figure, and what it rests on."""
    return {
        "epsilon": figure.epsilon,
        "delta": figure.delta,
        "relation": figure.relation,
        "assumption": figure.assumption,
        "method": figure.method,
    }


def seconded(exact: Composition, second: Opinion) -> Composition:
    """What an exact figure is of, as the second opinion has it, which brackets the true one."""
    least = "infinite" if math.isinf(second.lower) else f"at least {second.lower:.8g}"
    cells = f", with losses in cells of {second.interval:.2g}" if second.interval else ""
    method = f"second opinion, by dp-accounting: {least}{cells}"
    return msgspec.structs.replace(exact, epsilon=second.epsilon, method=method, tight=False)
