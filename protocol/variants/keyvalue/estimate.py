"""Estimate of a survey of keys from counts of PrivKV's reports."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol.errors import NoLikelihoodError, SurveyError
from protocol.estimators.estimate import Estimate, Keyed
from protocol.estimators.inference.cumulants import CumulantLaw
from protocol.estimators.inference.laws import LEVEL, About, Interval, checked
from protocol.estimators.projection import Projection
from protocol.estimators.tables import Cells, Estimated, Table
from protocol.randomizers.exact import Floats
from protocol.randomizers.keyvalue import ABSENT, PrivKV
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey
from protocol.variants.keyvalue.counts import ratio
from protocol.variants.keyvalue.intervals import mean_intervals
from protocol.variants.keyvalue.moments import KeyValueEstimate, em, maximum_likelihood, moment
from protocol.variants.keyvalue.records import held_records, held_survey, key_values

Estimator: TypeAlias = Literal["moment", "debiased", "em", "likelihood"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class KeyValueTables(Estimate):
    """Frequencies of keys, and the means of their values.

    Its tables are of single keys, missing or held, as a respondent reports on one key. A key
    without a report is NaN. Respondents asked for a key count as a random sample, so both kinds of
    standard errors are the same, and include that sampling; NaN where they are unknown.

    Intervals are the same for all estimators: the shares and means that the reports do not
    contradict, by the unbiased estimates of ``moment``, debiased. ``em`` and ``likelihood`` are
    point estimates that may lie outside, and so are the means of ``moment``, which count fakes as
    values.

    Args:
        asked: the survey with the values.
        randomizer: that of one round.
        estimator: ``moment`` as PrivKV prints it, ``debiased``, the paper's ``em`` (of one round),
            or the exact maximum of the ``likelihood``.
        counts: of every round, shape (rounds, d, 3), as from ``tally``. Frequencies are from the
            first, which has the most respondents, and means from the last.
        virtual: number of further rounds without respondents, for the means of ``moment``.

    Attributes:
        survey: the keys, each missing or held.
    """

    asked: Survey
    randomizer: PrivKV
    estimator: Estimator
    counts: NDArray[np.int64]
    virtual: int = 0
    survey: Survey = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "survey", held_survey(self.asked))
        if self.counts.ndim != 3 or self.counts.shape[1:] != (self.randomizer.keys, 3):
            raise ValueError(
                f"counts of shape {self.counts.shape}: expected (rounds, {self.randomizer.keys}, 3)"
            )
        if self.virtual and self.estimator != "moment":
            raise ValueError(f"virtual iterations of {self.estimator!r}: expected 'moment'")
        if not self.counts[0].any():
            raise ValueError("no reports: expected at least one")
        if self.estimator == "em" and len(self.counts) > 1:
            raise ValueError("EM: expected one round, in which a fake's sign is a fair coin")

    def __repr__(self) -> str:
        return f"<KeyValueTables: n={self.n}, {self.randomizer.keys} keys, by {self.estimator}>"

    @property
    def n(self) -> int:
        """Number of respondents who reported."""
        return int(self.counts[0].sum())

    @property
    def keyed(self) -> Keyed:
        """Itself."""
        return self

    @property
    def frequencies(self) -> Floats:
        """The raw shares of the respondents who hold each key, shape (d,)."""
        return self._found[0].frequencies

    @property
    def frequency_errors(self) -> Floats:
        """Standard errors of ``frequencies``, shape (d,); NaN where unknown."""
        return self._found[0].frequency_errors

    @property
    def means(self) -> Floats:
        """The means of the values of each key's holders, shape (d,)."""
        return self._found[1].means

    @property
    def mean_errors(self) -> Floats:
        """Standard errors of ``means``, shape (d,); NaN where unknown."""
        return self._found[1].mean_errors

    def frequency_intervals(self, level: float = LEVEL, about: About = "respondents") -> Interval:
        """Confidence intervals of the shares of respondents who hold each key, (d,) each.

        Args:
            level: the confidence level, above 0 and below 1.
            about: the respondents or a population.

        Raises:
            ValueError: the level is out of range, or an unknown ``about``.
        """
        reports = self.counts[0].sum(axis=-1)
        return self._law(reports - self.counts[0, :, ABSENT], reports).interval(level, about)

    def mean_intervals(self, level: float = LEVEL, about: About = "respondents") -> Interval:
        """Confidence intervals of the means of each key's values, within [-1, 1].

        A report does not show the spread of the values of those who hold a key, unless they can
        only be -1 and 1. Otherwise an interval about the respondents is that about a population of
        which they are a sample. If most respondents report on the key, it is too wide by the
        values' own spread.
        """
        extremes = [set(row[np.isfinite(row)]) <= {-1, 1} for row in key_values(self.asked)]
        known = np.array(extremes) & (checked(about) == "respondents")
        return mean_intervals(
            self.counts[-1],
            self.randomizer,
            level=level,
            fakes=self._last_fakes,
            of=np.where(known, self.n, math.inf),
        )

    def by(self, estimator: Estimator) -> KeyValueTables:
        """The same counts with another estimator, without virtual iterations.

        Raises:
            ValueError: EM of several rounds.
        """
        return replace(self, estimator=estimator, virtual=0)

    @cached_property
    def _found(self) -> tuple[KeyValueEstimate, KeyValueEstimate]:
        """Estimates from the first round and from the last."""
        first = self._estimated(self.counts[0], 0.0)
        if len(self.counts) == 1:
            return first, first
        return first, self._estimated(self.counts[-1], self._last_fakes)

    @cached_property
    def _last_fakes(self) -> Floats:
        """The means of the fakes of the last round, shape (d,)."""
        if len(self.counts) == 1:
            return np.zeros(self.randomizer.keys)
        return fakes_after(self.counts[-2], self.randomizer)

    def _answers(self, axis: int) -> NDArray[np.int64]:
        """Number of reports that a key is missing, and that it is held, shape (2,)."""
        counts = self.counts[0, axis]
        return np.array([counts[ABSENT], counts.sum() - counts[ABSENT]])

    def _law(self, answers: NDArray[np.int64], reports: NDArray[np.int64]) -> CumulantLaw:
        """Law of the unbiased shares of those who miss or hold a key, by the reports of each."""
        response = self.randomizer.key_response
        other, gain = response.off_diagonal, response.diagonal - response.off_diagonal
        values = (ratio(answers.astype(np.float64), reports) - other) / gain
        return CumulantLaw.of_counts(values, reports, other=other, gain=gain, of=self.n)

    def _estimated(self, counts: NDArray[np.int64], fakes: ArrayLike) -> KeyValueEstimate:
        match self.estimator:
            case "moment":
                return moment(counts, self.randomizer, fakes=fakes, virtual=self.virtual)
            case "debiased":
                return moment(counts, self.randomizer, debias=True, fakes=fakes)
            case "likelihood":
                return maximum_likelihood(counts, self.randomizer, fakes=fakes)
            case "em":
                found = em(counts, self.randomizer)
                return KeyValueEstimate(
                    frequencies=found.frequencies,
                    means=found.means,
                    frequency_errors=found.frequency_errors,
                    mean_errors=found.mean_errors,
                )

    def cells(self, names: tuple[str, ...]) -> Cells:
        """The shares of respondents who miss one key and hold it."""
        axis = self._axis(names)
        share = float(self.frequencies[axis])
        error = float(self.frequency_errors[axis])
        values = np.array([1 - share, share])
        errors, answers = np.array([error, error]), self._answers(axis)
        return Cells(values, errors, errors, self._law(answers, answers.sum()), int(answers.sum()))

    def reported(self, names: Sequence[str]) -> NoReturn:
        raise NoLikelihoodError(
            "tables of keys and values are not fitted; expected the estimator 'em' or "
            "'likelihood' in place of the projection"
        )

    def mean(self, names: tuple[str, ...], weights: Floats) -> Estimated:
        axis = self._axis(names)
        missing, held = weights.tolist()
        value = missing + (held - missing) * float(self.frequencies[axis])
        error = abs(held - missing) * float(self.frequency_errors[axis])
        answers = self._answers(axis)
        law = self._law(answers[int(held > missing)], answers.sum())
        moved = law.times(abs(held - missing), min(missing, held))
        return Estimated(value, None if math.isnan(error) else error, moved)

    def pairs(self, projection: Projection = "none") -> list[Table]:
        """An empty list, since a respondent reports on one key."""
        return []

    def recoded(self, records: Records) -> Records:
        """Records of the keys that each respondent holds.

        Raises:
            SurveyError: the records are of another survey than the one asked.
        """
        if records.survey != self.asked:
            raise SurveyError("the records are of another survey than the one asked")
        return held_records(records)

    def _axis(self, names: tuple[str, ...]) -> int:
        axes = self.survey.axes(names)
        if len(axes) != 1:
            raise ValueError(
                f"{len(axes)} attributes: expected one key, since a respondent reports on one"
            )
        return axes[0]


def fakes_after(counts: NDArray[np.int64], randomizer: PrivKV) -> Floats:
    """Means for the fakes of PrivKVM's next round, shape (d,); 0 for a key without a report."""
    found: Floats = np.nan_to_num(moment(counts, randomizer).means)
    return found
