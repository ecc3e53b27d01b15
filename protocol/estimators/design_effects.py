"""Design effects: larger variances where the respondents of a party are alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from protocol.estimators.estimate import Estimate
from protocol.randomizers.exact import Floats

FEWEST = 10
"""The fewest parties for a variance between parties. Of ten, its relative standard error is about
a half."""


class PartMargins(NamedTuple):
    """Margins of every attribute from the answers of one party alone.

    Attributes:
        n: the number of its respondents.
        margins: the raw estimated shares of every category, by attribute.
    """

    n: int
    margins: Mapping[str, Floats]

    @classmethod
    def of(cls, estimate: Estimate) -> PartMargins:
        """Margins of the estimate from one party's answers."""
        tables = estimate.marginals()
        return cls(estimate.n, {name: table.values for name, table in tables.items()})


class DesignEffects(NamedTuple):
    """Design effects on the variances about the population.

    Attributes:
        parties, records: their numbers.
        errors: standard errors of the shares, if the parties are a random sample of all parties.
        effects: the variances relative to those of as many respondents drawn one by one; NaN where
            the latter are unknown.
    """

    parties: int
    records: int
    errors: Mapping[str, Floats]
    effects: Mapping[str, Floats]

    @property
    def extremes(self) -> tuple[float, float]:
        """The least and the largest effect on any category; NaN if none is known."""
        effects = np.concatenate([effect.ravel() for effect in self.effects.values()])
        known = effects[np.isfinite(effects)]
        if not len(known):
            return np.nan, np.nan
        return float(known.min()), float(known.max())


def design_effects(whole: Estimate, parts: Sequence[PartMargins]) -> DesignEffects | None:
    """Design effects of an estimate, from the margins of each party alone.

    A share of all is the ratio of two totals over parties, ``sum k_c t_c / sum k_c``. Its
    linearized variance between C parties is ``C/(C-1) sum k_c**2 (t_c - t)**2 / n**2`` (Kish,
    Survey Sampling, 1965, section 6.3). It includes sampling, likeness inside parties and
    randomization.

    Args:
        whole: of all respondents; its shares are means over respondents.
        parts: of each party.

    Returns:
        None if the parts do not add up to the whole, or if there is only one.
    """
    sizes = np.array([part.n for part in parts], np.float64)
    if len(parts) < 2 or sizes.sum() != whole.n:
        return None
    errors, effects = {}, {}
    for name, table in whole.marginals().items():
        shares = np.stack([part.margins[name] for part in parts])
        mean = sizes @ shares / whole.n
        if not np.allclose(mean, table.values, atol=1e-9):
            return None
        factor = len(parts) / (len(parts) - 1) / whole.n**2
        variances = factor * (sizes**2 @ (shares - mean) ** 2)
        errors[name] = np.sqrt(variances)
        single = table.population_errors
        if single is None:
            single = np.full(mean.shape, np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            effects[name] = np.where(single > 0, variances / single**2, np.nan)
    return DesignEffects(len(parts), whole.n, errors, effects)
