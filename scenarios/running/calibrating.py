"""Calibration as a command is asked for it: files of margins, and a method."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from protocol.errors import UsageError

if TYPE_CHECKING:
    from protocol.estimators.calibration.calibrated import Method
    from protocol.estimators.calibration.margins import Margin
    from protocol.estimators.estimate import Estimate
    from protocol.surveys.survey import Survey

METHODS: tuple[Method, ...] = ("linear", "post-stratified", "raking")
"""The methods by name."""


class Calibration(NamedTuple):
    """Known margins that an estimate is made to agree with.

    Args:
        files: files of margins; without any, nothing is calibrated.
        method: the calibration method.
    """

    files: tuple[Path, ...] = ()
    method: Method = "linear"

    def margins(self, survey: Survey) -> tuple[Margin, ...]:
        """The margins in the files.

        Raises:
            UsageError: a file that is not one of margins of this survey, or margins that contradict
                each other.
        """
        from protocol.estimators.calibration.margins import checked_margins
        from scenarios.data.own_tables.margins import read_margins

        found = tuple(margin for path in self.files for margin in read_margins(path, survey))
        try:
            return checked_margins(survey, found)
        except ValueError as error:
            raise UsageError(f"--calibrate: {error}") from error

    def check(self, survey: Survey) -> None:
        """Read and check the files before a run.

        Raises:
            UsageError: as ``margins``.
        """
        if self.files:
            self.margins(survey)

    def of(self, estimate: Estimate) -> Estimate:
        """The calibrated estimate.

        Raises:
            UsageError: as for ``margins``, or the estimate cannot be calibrated.
        """
        from protocol.estimators.calibration.methods import calibrate

        try:
            return calibrate(estimate, self.margins(estimate.survey), method=self.method)
        except ValueError as error:
            raise UsageError(f"--calibrate: {error}") from error


UNCALIBRATED = Calibration()
"""Estimates are left as they are."""
