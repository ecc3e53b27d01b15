"""Payers of an answer, and their allowances."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from parties.keeping.attempts import Allowance
from parties.keeping.paying.people import Spellings
from protocol.accounting.spending import DELTA, Cost, is_within, largest, together
from protocol.errors import PrivacyError, UsageError
from protocol.session.variant import Variant

UNBOUNDED = Cost(math.inf)


@dataclass(frozen=True, slots=True, eq=False)
class Spent:
    """Sums that each of some payers has spent.

    Args:
        epsilon: in nats, shape (k,).
        delta: shape (k,).
        honest: the assumptions of the sums, as for a ``Cost``.
    """

    epsilon: NDArray[np.float64]
    delta: NDArray[np.float64]
    honest: tuple[int, ...] = ()

    @property
    def most(self) -> Cost:
        """The largest sums, which may be of two of them."""
        return Cost(float(self.epsilon.max()), float(self.delta.max()), self.honest)

    def plus(self, cost: Cost) -> Spent:
        """The same if each had spent this too."""
        honest = largest((self.most, cost)).honest
        return Spent(self.epsilon + cost.epsilon, self.delta + cost.delta, honest)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Payers:
    """Payers of an answer, and the most that each may spend.

    Args:
        marks: the marks of k distinct people under each secret of the purse. None for a secret
            under which they are unknown, so that they may be anybody; and None instead of all for
            one payer that stands for all.
        budget: the most epsilon that each may have spent in all surveys, in nats; None if not
            given, which is infinite.
        delta: the most delta; 0 for a purse of pure epsilon. None is 0 with a budget, and infinite
            without one.
        most: what the survey can cost at most (``Variant.most_among``).
    """

    marks: tuple[Spellings | None, ...] | None
    budget: float | None = None
    delta: float | None = None
    most: Cost = UNBOUNDED

    def __len__(self) -> int:
        if self.marks is None:
            return 1
        return next((len(known) for known in self.marks if known is not None), 0)

    def __repr__(self) -> str:
        return f"<Payers: {len(self)}>"

    def up_to(self, budget: float | None, most: Cost, *, delta: float | None = None) -> Payers:
        """The same people, with an allowance for all surveys."""
        return replace(self, budget=budget, delta=delta, most=most)

    def asked(
        self,
        variant: Variant,
        *,
        budget: float | None = None,
        honest: int | None = None,
        delta: float | None = None,
    ) -> Payers:
        """The same people, asked by a variant.

        Args:
            budget: the most epsilon that each may have spent in all surveys; None if not given.
            honest: the number of parties of a sum that they take to be honest, if nothing else
                bounds the loss; None for no such figure.
            delta: the most delta that each may have spent in such figures; None for ``DELTA``.

        Raises:
            UsageError: a delta without ``honest``.
        """
        if honest is None:
            if delta is not None:
                raise UsageError(
                    f"--delta {delta:g}: expected --honest, since a figure at a delta takes others "
                    "to be honest"
                )
            return self.up_to(budget, variant.most_among(0, 0.0))
        allowed = DELTA if delta is None else delta
        most = variant.most_among(honest, min(DELTA, allowed))
        return self.up_to(budget, most, delta=allowed)

    @property
    def allowance(self) -> Allowance:
        """The most that each may have spent in all surveys."""
        delta = self.delta
        if delta is None:
            delta = math.inf if self.budget is None else 0.0
        return Allowance(math.inf if self.budget is None else self.budget, delta)

    def needed(self, free: Allowance) -> Cost:
        """The least that must be left of an allowance for the survey to run as with all of it.

        Args:
            free: the allowance, less the spending that others know of.
        """
        delta = min(free.delta, self.most.delta or DELTA)
        if math.isfinite(self.most.epsilon) and free.delta >= self.most.delta:
            return Cost(min(free.epsilon, self.most.epsilon), self.most.delta, self.most.honest)
        return Cost(free.epsilon, delta, self.most.honest)

    def check_left(self, spent: Spent, *, needed: Cost) -> None:
        """Refuse if somebody has less left than is needed.

        Args:
            spent: what each has spent elsewhere.
            needed: per respondent.

        Raises:
            PrivacyError: gives their number, without names.
        """
        delta = self.allowance.delta
        sums = zip(spent.epsilon.tolist(), spent.delta.tolist(), strict=True)
        short = [
            each
            for each in (Cost(*some) for some in sums if any(some))
            if self.allowance.rest(each).epsilon < needed.epsilon
            or not is_within(each.delta + needed.delta, delta)
        ]
        if not short:
            return
        most = Cost(
            max(each.epsilon for each in short), max(each.delta for each in short), spent.honest
        )
        who = f"{len(short)} of {len(spent.epsilon)} respondents"
        if len(spent.epsilon) == 1:
            who = "this purse"
        have = "have" if len(short) > 1 else "has"
        raise PrivacyError(f"{who} {have} too little left: {self._why(most, needed)}")

    def _why(self, spent: Cost, needed: Cost) -> str:
        epsilon, delta = self.allowance
        enough = together((spent, needed))
        budget = (
            f"a budget of {math.ceil(enough.epsilon * 1e4) / 1e4:.12g}"
            if math.isfinite(enough.epsilon)
            else ""
        )
        if not enough.delta:
            return (
                f"up to {spent.epsilon:.6g} of {epsilon:.6g} spent elsewhere, "
                f"{needed.epsilon:.6g} needed; "
                f"{f'{budget} is enough for all' if budget else 'no budget is enough'}"
            )
        return (
            f"spent elsewhere, at most: {spent}; needed: {Cost(needed.epsilon, needed.delta)}; "
            f"allowed: epsilon {epsilon:.6g}, delta {delta:.6g}; "
            + (
                f"{budget} and, with --honest, a delta of {enough.delta:.6g} are enough for all"
                if budget
                else "no budget is enough"
            )
        )
