"""The Adult data set (Census Income, training part), from the packaged copy or from its raw file.

32,561 records of the 1994 census of the United States. B. Becker and R. Kohavi, Adult, UCI
Machine Learning Repository, 1996, doi 10.24432/C5XW20. The papers use its eight categorical
attributes, whose joint table has 1,814,400 cells, and age.
"""

from __future__ import annotations

import gzip
from itertools import chain
from pathlib import Path

import numpy as np

from parties.keeping.writing import reason
from protocol.errors import SurveyError
from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey
from scenarios.data import DatasetError
from scenarios.data.raw_files import packaged, raw_file

FILE = "adult.data"
"""The raw file, as UCI has it."""

CODES = "adult.codes.gz"
"""The packaged file."""

HEADER = (
    "age,workclass,fnlwgt,education,education-num,marital-status,occupation,relationship,race,sex,"
    "capital-gain,capital-loss,hours-per-week,native-country,income"
)
"""The columns of the raw file, which has no header itself."""


def _nominal(name: str, categories: str, *, unknown: bool = False) -> Attribute:
    listed = tuple(categories.split())
    if unknown:
        return Attribute(name=name, categories=(*listed, "?"), missing="?")
    return Attribute(name=name, categories=listed)


ADULT = Survey(
    "Adult",
    (
        _nominal(
            "workclass",
            "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay "
            "Never-worked",
            unknown=True,
        ),
        _nominal(
            "education",
            "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th "
            "Masters 1st-4th 10th Doctorate 5th-6th Preschool",
        ),
        _nominal(
            "marital-status",
            "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent "
            "Married-AF-spouse",
        ),
        _nominal(
            "occupation",
            "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty "
            "Handlers-cleaners Machine-op-inspct Adm-clerical Farming-fishing Transport-moving "
            "Priv-house-serv Protective-serv Armed-Forces",
            unknown=True,
        ),
        _nominal("relationship", "Wife Own-child Husband Not-in-family Other-relative Unmarried"),
        _nominal("race", "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black"),
        _nominal("sex", "Female Male"),
        _nominal("income", ">50K <=50K"),
    ),
)
"""The eight categorical attributes, all nominal, in the order of the file.

The categories are in the order of UCI's documentation (``adult.names``), with the ``?`` of the
file, where it occurs, as a last one that stands for a missing answer. Sizes 9, 16, 7, 15, 6, 5, 2
and 2.
"""


ADULT_BY_YEAR = Survey(
    "Adult by year of age",
    (
        Attribute(name="age", categories=tuple(map(str, range(100))), ordinal=True),
        *ADULT.attributes,
    ),
)
"""All that is packaged: age in years, then the attributes of ``ADULT``."""

BIN = 20
"""Years per bin."""

ADULT_WITH_AGE = Survey(
    "Adult with age",
    (
        Attribute(
            name="age",
            categories=tuple(f"{start}-{start + BIN - 1}" for start in range(0, 100, BIN)),
            ordinal=True,
        ),
        *ADULT.attributes,
    ),
)
"""Age in five bins (0-19, 20-39, 40-59, 60-79, 80-99), then the eight attributes of ``ADULT``.

The bins are those of figures 9 to 12 of RR-Ind-Joint, which says "20-years-old bins" and "five
categories"; the ages of the file are 17 to 90.
"""


def adult(data: Path | str | None) -> Records:
    """The records of the Adult data set.

    Args:
        data: a folder that holds the raw file, as ``adult.data`` or ``adult/adult.data``. None
            means the folder that the environment variable SOTTOVOCE_DATA names, if it has that
            file; else the copy that comes with this package is read, which has the same records.

    Returns:
        Records of ``ADULT``; k = 32,561 for the whole file. A raw file may be an excerpt: its
        checksum is not asked for, but every line must be as in the original.

    Raises:
        DatasetError: no such file in ``data``, a line that is not Adult's, or a packaged copy that
            is damaged.
    """
    return _read(ADULT, data)


def adult_with_age(data: Path | str | None) -> Records:
    """The records of the Adult data set with the respondents' age in five bins of twenty years.

    Args, errors: as for ``adult``.

    Returns:
        Records of ``ADULT_WITH_AGE``.
    """
    codes = _read(ADULT_BY_YEAR, data).codes.copy()
    codes[:, 0] //= BIN
    return Records(ADULT_WITH_AGE, codes)


def packed(path: Path) -> bytes:
    """The packaged file, made from the raw one.

    Returns:
        One byte for each record, which is the place of its category, first of all records for the
        first attribute of ``ADULT_BY_YEAR``, then for the second, and so on; compressed.

    Raises:
        DatasetError: the file cannot be read, or has a line that is not Adult's.
    """
    codes = _parse(ADULT_BY_YEAR, path).codes
    return gzip.compress(codes.astype(np.uint8).T.tobytes(), mtime=0)


def _read(survey: Survey, data: Path | str | None) -> Records:
    path = raw_file(data, (FILE, f"adult/{FILE}"))
    if path is not None:
        return _parse(survey, path)
    codes = np.frombuffer(packaged(CODES), np.uint8).reshape(len(ADULT_BY_YEAR.names), -1)
    return Records(survey, codes[list(ADULT_BY_YEAR.axes(survey.names))].T)


def _parse(survey: Survey, path: Path) -> Records:
    try:
        # Without universal newlines: the csv module has its own rules about line ends.
        with path.open(encoding="utf-8", newline="") as lines:
            return Records.from_csv(survey, chain([f"{HEADER}\n"], lines))
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {reason(error)}") from error
    except SurveyError as error:
        raise DatasetError(f"{path} is not Adult's {FILE}: {error}") from error
