"""How many reports a second clients make: the project's, together and one by one, and a peer's."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import Spread, spread_of
from protocol import Randomizer, Stream

TOGETHER = 40
"""How many times as many reports the project makes together, to be timed well."""

REPEATS = 7


class Rates(NamedTuple):
    """Reports a second of processor time, and the quartiles of a ratio.

    Args:
        together: of the project, in one call.
        singly: of the project, by a call each.
        peer: of the peer, by a call each.
        ratio: the project's rate together as a multiple of the peer's.
    """

    together: float
    singly: float
    peer: float
    ratio: Spread

    def line(self, name: str) -> str:
        """Under ``heading``."""
        low, median, high = (f"{x:,.0f}" if x >= 10 else f"{x:.1f}" for x in self.ratio)
        ratio = f"{median} ({low} to {high})"
        return f"  {name:26}{self.together:16,.0f}{self.singly:12,.0f}{self.peer:14,.0f}{ratio:>26}"


def heading(peer: str) -> str:
    """What stands above the lines of rates: two lines, of which the second goes on."""
    return (
        f"  {'':26}{'project, reports a second':>28}{f'{peer},':>14}\n"
        f"  {'':26}{'together':>16}{'one by one':>12}{'one by one':>14}{'together to peer':>26}"
    )


def measure_rates(
    ours: Randomizer,
    theirs: Callable[[int], object],
    codes: NDArray[np.uint8],
    stream: Stream,
    *,
    first: int = 0,
) -> Rates:
    """Time all sides in turn, by processor time, which other jobs of the machine change least.

    The rates are medians; the ratio is taken within each turn.

    Args:
        ours: the project's.
        theirs: randomizes one value.
        codes: the true answers.
        first: the peer's value of code 0.
    """
    many = np.tile(codes, TOGETHER)
    alone = [codes[place : place + 1] for place in range(len(codes))]
    values = [first + code for code in codes.tolist()]

    def together() -> None:
        ours.randomize(many, stream)

    def singly() -> None:
        for one in alone:
            ours.randomize(one, stream)

    def peer() -> None:
        for value in values:
            theirs(value)

    theirs(values[0])  # What is compiled on its first call is compiled now.
    sides = ((together, len(many)), (singly, len(alone)), (peer, len(values)))
    turns = [[count / _computing(run) for run, count in sides] for _ in range(REPEATS)]
    rates = [spread_of(column).median for column in zip(*turns, strict=True)]
    ratio = spread_of([whole / other for whole, _, other in turns])
    return Rates(together=rates[0], singly=rates[1], peer=rates[2], ratio=ratio)


def _computing(run: Callable[[], None]) -> float:
    started = time.process_time()
    run()
    return time.process_time() - started
