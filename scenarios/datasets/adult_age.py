"""The Adult data set with the respondents' age in five bins of twenty years; nothing is drawn."""

from __future__ import annotations

import os
from itertools import chain
from pathlib import Path

from protocol.errors import SurveyError
from protocol.records import Records
from protocol.survey import Attribute, Survey
from scenarios.datasets import DatasetError
from scenarios.datasets.adult import ADULT, COLUMNS, FILE, VARIABLE, downloaded, found_in

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

_BY_YEAR = Survey(
    "Adult by year of age",
    (
        Attribute(name="age", categories=tuple(map(str, range(_YEARS))), ordinal=True),
        *ADULT.attributes,
    ),
)


def adult_with_age(data: Path | None) -> Records:
    """The records of the Adult data set with age, found as ``scenarios.datasets.adult`` has it.

    Args:
        data: a folder that holds ``adult.data`` or ``adult/adult.data``; None as for ``adult``.

    Returns:
        Records of ``ADULT_WITH_AGE``; k = 32,561 for the whole file.

    Raises:
        DatasetError: no such file, no download, or a line that is not Adult's.
    """
    if data is None and (named := os.environ.get(VARIABLE)):
        data = Path(named)
    path = downloaded() if data is None else found_in(data)
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            records = Records.from_csv(_BY_YEAR, chain([",".join(COLUMNS) + "\n"], lines))
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror}") from error
    except SurveyError as error:
        raise DatasetError(f"{path} is not Adult's {FILE}: {error}") from error
    codes = records.codes.copy()
    codes[:, 0] //= BIN
    return Records.from_codes(ADULT_WITH_AGE, codes)
