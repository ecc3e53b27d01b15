"""Attacks a randomizer's draws by counting the reports with the largest likelihood ratio.

Nothing is learned, as the best event follows from the stated law. The trials come from
``randomize``, so a randomizer that draws by another law is found.
"""

from __future__ import annotations

from fractions import Fraction

import msgspec
import numpy as np

from protocol.attack.bounds import provable
from protocol.attack.probes import Probe, Tried, proved
from protocol.crypto.randomness import Stream, secret_of
from protocol.randomizers import OutputClass, Randomizer
from protocol.randomizers.vetting import check_stated, known, stated_epsilon
from protocol.wire.arrays import smallest_dtype

TRIALS = 1_000_000
"""Default number of reports, of the one or the other input."""

ALPHA = 1e-9
"""The largest probability that a randomizer with a right epsilon is accused."""

EVENT = "the reports with the largest likelihood ratio"


def attack_randomizer(
    randomizer: Randomizer,
    inputs: tuple[int, int] | None = None,
    *,
    trials: int = TRIALS,
    alpha: float = ALPHA,
    delta: float = 0.0,
    seed: int = 1,
) -> Probe:
    """Attack the reports of a randomizer with a known law.

    Args:
        randomizer: the randomizer under attack.
        inputs: the two inputs to distinguish; by default 0 and the one farthest from it.
        trials: number of reports, the input of each by a fair coin.
        alpha: the probability of a false accusation.
        delta: of the bound on epsilon. Above 0, draws are taken to be independent.
        seed: decides everything.

    Raises:
        UnsupportedEventError: the randomizer has no law, or contradicts it.
        ValueError: numbers out of range, or inputs that are not two of the randomizer's.
    """
    check_stated(randomizer)
    bound = stated_epsilon(randomizer)
    draw = known(randomizer)
    first, second = inputs if inputs is not None else (0, draw.farthest(0))
    if first == second or not (0 <= first < draw.size and 0 <= second < draw.size):
        raise ValueError(f"inputs {first} and {second}: expected two below {draw.size}")
    if trials < 2:
        raise ValueError(f"{trials} trials: expected at least 2")
    stream = Stream(secret_of(seed)).derive("attack a randomizer")
    coins = np.frombuffer(stream.derive("coins").bytes(-(-trials // 8)), np.uint8)
    bits = np.unpackbits(coins, count=trials)
    codes = np.array([first, second], smallest_dtype(draw.size))[bits]
    reports = draw.randomize(codes, stream.derive("draws"))
    law = draw.law(first, second)
    classes = draw.classify(reports, first, second).astype(np.intp)
    classes *= 2
    classes += bits
    table = np.bincount(classes, minlength=2 * len(law)).reshape(len(law), 2)
    sides = np.array(_sides(law))
    counts = {
        (bool(bit), side): int(table[sides == side, bit].sum())
        for bit in (0, 1)
        for side in (-1, 1)
    }
    totals = table.sum(axis=0)
    probe = proved(
        counts, {False: int(totals[0]), True: int(totals[1])}, level=alpha / 2, delta=delta
    )
    most = provable(trials, alpha=alpha / 2, delta=delta)
    return msgspec.structs.replace(
        probe,
        pair=f"{first} or {second}",
        bound=bound,
        event=EVENT,
        tried=(Tried("draws", trials, 0, bound, most),),
    )


def _sides(law: tuple[OutputClass, ...]) -> list[int]:
    """The input that each class of reports indicates: 1 the second, -1 the first, 0 neither.

    If some class is possible for one input alone, only such classes count.
    """
    odds = [_odds(part) for part in law]
    loudest = max(odds)
    if loudest <= Fraction(1, 2):
        return [0] * len(law)
    likelier = [1 if part.second > part.first else -1 for part in law]
    return [side if one == loudest else 0 for one, side in zip(odds, likelier, strict=True)]


def _odds(part: OutputClass) -> Fraction:
    """Odds of the likelier input after such a report, with even prior odds."""
    whole = part.first + part.second
    return Fraction(max(part.first, part.second), 1) / whole if whole else Fraction(0)
