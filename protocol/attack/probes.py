"""Attempts to distinguish two inputs: counted guesses on trials, and the bounds that they prove."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from protocol.attack.bounds import (
    Interval,
    clopper_pearson,
    epsilon_of_counts,
    epsilon_of_guesses,
    provable,
)
from protocol.attack.declared import Guess, declared_guess
from protocol.attack.learned import learned_guess
from protocol.attack.trials import Pair, Trials


class Tried(msgspec.Struct, frozen=True):
    """One sort of trials of a pair of inputs.

    Args:
        views: whole runs, parties, couples of them, or rows of arrays.
        trials: number of trials. Half of them teach; guesses are tried on the others.
        runs: number of runs with these trials.
        bound: the ledger's upper bound on epsilon in these runs.
        provable: the lower bound if every guess is right.
        honest: number of honest parties in a sum that ``bound`` assumes; 0 if it holds whoever else
            conspires.
    """

    views: str
    trials: int
    runs: int
    bound: float
    provable: float
    honest: int = 0

    @property
    def undecided(self) -> bool:
        """True if so few trials cannot prove even a total leak."""
        return math.isfinite(self.bound) and self.provable <= self.bound


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """The attempt on one pair of inputs that proves most.

    Args:
        pair: the difference between the inputs.
        bound: the ledger's upper bound on epsilon in the same runs; infinite if nothing can exceed
            it.
        honest: number of honest parties in a sum that ``bound`` assumes; 0 if it holds whoever else
            conspires.
        lower: the lower bound on epsilon that is proved, at the attack's alpha.
        event: the rule of the guesses; empty if nothing was tried.
        learned: whether the rule was learned from other trials.
        trials: number of trials with guesses.
        runs: number of runs with these trials.
        guesses, right: number of guesses, and of right ones.
        first, second: the probability of the event under the input that it indicates, and under the
            other.
        unbounded: reasons for an infinite bound.
        tried: all sorts of trials.
    """

    pair: str
    bound: float
    honest: int = 0
    lower: float = 0.0
    event: str = ""
    learned: bool = False
    trials: int = 0
    runs: int = 0
    guesses: int = 0
    right: int = 0
    first: Interval = Interval(0.0, 1.0)
    second: Interval = Interval(0.0, 1.0)
    unbounded: tuple[str, ...] = ()
    tried: tuple[Tried, ...] = ()

    @property
    def accused(self) -> bool:
        """True if the lower bound exceeds the ledger's bound."""
        return self.lower > self.bound

    @property
    def weakest(self) -> Tried | None:
        """The sort of trials with the bound that is hardest to exceed."""
        bounded = [one for one in self.tried if math.isfinite(one.bound)]
        return min(bounded, key=lambda one: one.provable - one.bound, default=None)

    @property
    def undecided(self) -> bool:
        """True if nothing is accused, but so few trials cannot prove even a total leak."""
        return not self.accused and self.weakest is not None and self.weakest.undecided


def strongest_probe(pair: Pair, sorts: Sequence[Trials], *, level: float, delta: float) -> Probe:
    """The attempt that exceeds the ledger's bound by most, or that proves most."""
    z = -float(ndtri(level))
    best, tried = Probe(pair=pair.words, bound=math.inf), []
    for sort in sorts:
        most = provable(len(sort.bits) // 2, alpha=level, delta=delta)
        tried.append(Tried(sort.sort, len(sort.bits), sort.runs, sort.bound, most, sort.honest))
    for sort in sorted(sorts, key=lambda one: -len(one.bits)):
        untried = Probe(pair=pair.words, bound=sort.bound, honest=sort.honest)
        best = max(best, untried, key=_rank)
        most = provable(len(sort.bits), alpha=level, delta=delta)
        if math.isinf(sort.bound) or (best.trials and most <= min(best.lower, sort.bound)):
            continue  # It cannot prove more than is proved already.
        taught = np.arange(len(sort.bits)) % 2 == 0
        guess = learned_guess(sort.columns, sort.ratios, sort.bits, taught, z=z)
        guesses: list[tuple[Guess | None, bool]] = [(guess, True)]
        if sort.ratios is not None:
            least = sort.bound if delta else math.inf
            guesses.append((declared_guess(sort.ratios, least=least), False))
        for guess, learned in guesses:
            if guess is None:
                continue
            tested = ~taught if learned else np.ones(len(taught), np.bool_)
            probe = _proved(guess, sort, tested, level=level, delta=delta)
            probe = msgspec.structs.replace(probe, pair=pair.words, learned=learned)
            best = max(best, probe, key=_rank)
    return msgspec.structs.replace(best, tried=tuple(tried))


def _rank(probe: Probe) -> tuple[float, float, float, int]:
    """Rank by the excess over the bound, else by the lower bound where the bound is finite."""
    excess = max(0.0, probe.lower - probe.bound)
    return excess, -float(math.isinf(probe.bound)), probe.lower, probe.trials


def _proved(
    guess: Guess,
    sort: Trials,
    tested: NDArray[np.bool_],
    *,
    level: float,
    delta: float,
) -> Probe:
    bits, guesses = sort.bits[tested], guess.guesses[tested]
    table = np.bincount(2 * guesses.astype(np.intp) + bits + 2, minlength=6).reshape(3, 2)
    counts = {
        (bit, side): int(table[side + 1, int(bit)]) for bit in (False, True) for side in (-1, 1)
    }
    trials = {bit: int(table[:, int(bit)].sum()) for bit in (False, True)}
    probe = proved(counts, trials, level=level, delta=delta)
    return msgspec.structs.replace(
        probe, bound=sort.bound, honest=sort.honest, event=guess.words, runs=sort.runs
    )


def proved(
    counts: Mapping[tuple[bool, int], int],
    trials: Mapping[bool, int],
    *,
    level: float,
    delta: float,
) -> Probe:
    """Lower bound that guesses prove.

    Args:
        counts: number of guesses by the true input, first (False) or second (True), and by the
            guessed input, first (-1) or second (1).
        trials: number of trials of each input.
        level: the probability that the bound is wrong.
        delta: of the bound on epsilon.
    """
    right = counts[True, 1] + counts[False, -1]
    made = sum(counts.values())
    side = 1 if counts[True, 1] + counts[False, 1] >= made / 2 else -1
    spoken = side == 1
    if delta == 0.0:
        lower = epsilon_of_guesses(right, made, alpha=level)
    else:
        lower = max(
            epsilon_of_counts(
                (counts[one, way], counts[not one, way]),
                (trials[one], trials[not one]),
                alpha=level / 2,
                delta=delta,
            )
            for one, way in ((True, 1), (False, -1))
        )
    return Probe(
        pair="",
        bound=math.inf,
        lower=lower,
        trials=sum(trials.values()),
        guesses=made,
        right=right,
        first=clopper_pearson(counts[spoken, side], trials[spoken], alpha=level),
        second=clopper_pearson(counts[not spoken, side], trials[not spoken], alpha=level),
    )
