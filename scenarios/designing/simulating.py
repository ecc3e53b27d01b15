"""The error of a variant without a closed form, measured in simulated runs."""

from __future__ import annotations

import math

import numpy as np

from protocol.errors import UsageError
from protocol.estimators.inference.laws import About
from protocol.session.variant import Variant
from scenarios.designing.assumed import Shares
from scenarios.designing.predicting import NotEstimatedError, Prediction, sampling_variances
from scenarios.designing.targets import Target, count_cells
from scenarios.designing.trying import Piece, is_by_law, missed_in
from scenarios.designing.trying import Setup as Held

RUNS = 4
"""Minimum number of runs of a variant, if so many are allowed."""

MOST_RUNS = 40
"""Default maximum number of runs of a variant."""

PEOPLE, LIVE_PEOPLE = 100_000, 5_000
"""The most respondents of a run, by law and among live parties; errors of more are computed from
these.
"""

PARTIES = 4
"""Number of live parties, for variants in which nobody answers by herself."""


class Simulation:
    """A variant's simulated runs, which can be continued.

    The runs have the seeds 1, 2, ..., so a result depends only on their number. With more than
    ``PEOPLE`` respondents (``LIVE_PEOPLE`` where nobody answers by herself), errors are scaled by
    the root of their number.

    Args:
        variant: with its parameters.
        n: number of respondents that report.
        target: tables with cells that count.
        shares: assumed shares of the answers; the first case counts.
        about: subject of the estimates. About a population, sampling variance is added.

    Raises:
        LocalProtocolError: as of the variant's own code.
    """

    def __init__(
        self, variant: Variant, n: int, target: Target, shares: Shares, about: About = "respondents"
    ) -> None:
        self._by_law = is_by_law(variant, n)
        self._variant = variant
        most = PEOPLE if self._by_law else LIVE_PEOPLE
        self._records = shares.cases[0].records(min(n, most))
        self._tables = target.tables
        # By run and table, the mean squared error over cells.
        self._squares = np.empty((0, len(self._tables)))
        self._part = len(self._records) / n
        self._cells = np.array([count_cells(variant.survey, names) for names in self._tables])
        self._sampled = np.zeros(len(self._tables))
        if about == "population":
            case = shares.cases[0]
            found = (sampling_variances(names, n, case).mean() for names in self._tables)
            self._sampled = np.array([*found])

    def run(self, runs: int) -> Prediction:
        """The error that the runs have, with its Monte Carlo error.

        Args:
            runs: total number of runs wanted, at least 2.

        Raises:
            NotEstimatedError: the variant does not estimate one of the target's tables.
            ProtocolError: a run fails.
        """
        piece = Piece(
            variant=self._variant,
            records=self._records,
            setup=Held(tables=self._tables, parties=min(PARTIES, len(self._records))),
            by_law=self._by_law,
            runs=tuple((seed, False) for seed in range(len(self._squares) + 1, runs + 1)),
        )
        try:
            found = [missed.tables for missed in missed_in(piece)]
        except UsageError as error:
            raise NotEstimatedError(str(error)) from error
        self._squares = np.concatenate([self._squares, np.reshape(found, (-1, len(self._tables)))])
        squares = self._squares * self._part + self._sampled
        whole = np.average(squares, axis=1, weights=self._cells)
        rmse = math.sqrt(whole.mean())
        spread = float(np.std(whole, ddof=1)) / math.sqrt(len(whole))
        each = np.sqrt(squares.mean(axis=0)).tolist()
        tables = dict(zip(self._tables, each, strict=True))
        return Prediction(
            rmse,
            tables,
            runs=len(whole),
            monte_carlo=spread / (2 * rmse) if rmse else 0.0,
            widest=tables,
        )
