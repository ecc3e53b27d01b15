"""The Adult data set with the respondents' age in five bins of twenty years."""

from __future__ import annotations

from pathlib import Path

from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey
from scenarios.datasets.adult import ADULT, ADULT_BY_YEAR, read_adult

BIN = 20
"""Years per bin."""

_YEARS = 100

ADULT_WITH_AGE = Survey(
    "Adult with age",
    (
        Attribute(
            name="age",
            categories=tuple(f"{start}-{start + BIN - 1}" for start in range(0, _YEARS, BIN)),
            ordinal=True,
        ),
        *ADULT.attributes,
    ),
)
"""Age in five bins (0-19, 20-39, 40-59, 60-79, 80-99), then the eight attributes of ``ADULT``.

The bins are those of figures 9 to 12 of RR-Ind-Joint, which says "20-years-old bins" and "five
categories"; the ages of the file are 17 to 90.
"""


def adult_with_age(data: Path | str | None) -> Records:
    """The records of the Adult data set with age, found as ``scenarios.datasets.adult`` has it.

    Args:
        data: as for ``adult``.

    Returns:
        Records of ``ADULT_WITH_AGE``; k = 32,561 for the whole file.

    Raises:
        DatasetError: as for ``adult``.
    """
    codes = read_adult(ADULT_BY_YEAR, data).codes.copy()
    codes[:, 0] //= BIN
    return Records.from_codes(ADULT_WITH_AGE, codes)
