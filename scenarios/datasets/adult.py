"""The Adult data set (Census Income, training part): where its file is found and how it is read.

32,561 records of the 1994 census of the United States. B. Becker and R. Kohavi, Adult, UCI
Machine Learning Repository, 1996, doi 10.24432/C5XW20. The papers use its eight categorical
attributes, whose joint table has 1,814,400 cells.
"""

from __future__ import annotations

import logging
import os
from itertools import chain
from pathlib import Path

from protocol.errors import SurveyError
from protocol.records import Records
from protocol.survey import Attribute, Survey
from scenarios.datasets import DatasetError

URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/adult.data"
SHA256 = "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"
FILE = "adult.data"
VARIABLE = "SOTTOVOCE_DATA"
"""The environment variable that names the folder of the data sets."""

COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
)
"""The columns of the file, which has no header."""


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


def adult(data: Path | None) -> Records:
    """The records of the Adult data set, read from a folder or else downloaded once.

    Args:
        data: a folder that holds ``adult.data`` or ``adult/adult.data``. None means the folder that
            the environment variable SOTTOVOCE_DATA names; if it names none, the file comes from UCI
            and is kept in the user's cache.

    Returns:
        Records of ``ADULT``; k = 32,561 for the whole file. A file in a given folder may be an
        excerpt: its checksum is not asked for, but every line must be as in the original.

    Raises:
        DatasetError: no such file, no download, or a line that is not Adult's.
    """
    if data is None and (named := os.environ.get(VARIABLE)):
        data = Path(named)
    path = downloaded() if data is None else found_in(data)
    try:
        # Without universal newlines: the csv module has its own rules about line ends.
        with path.open(encoding="utf-8", newline="") as lines:
            return Records.from_csv(ADULT, chain([",".join(COLUMNS) + "\n"], lines))
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror}") from error
    except SurveyError as error:
        raise DatasetError(f"{path} is not Adult's {FILE}: {error}") from error


def found_in(folder: Path) -> Path:
    """The file in a folder.

    Raises:
        DatasetError: it is not there.
    """
    tried = (folder / FILE, folder / "adult" / FILE)
    for path in tried:
        if path.is_file():
            return path
    raise DatasetError(
        f"no Adult data: neither {tried[0]} nor {tried[1]} is a file; "
        f"pass --data DIR or set {VARIABLE} to a folder that has one of them"
    )


def downloaded() -> Path:
    """The cached file, fetched first if need be; its checksum is asked for either way."""
    # Imported here: it brings an HTTP client along, which nothing else needs.
    import pooch

    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        fetched = pooch.retrieve(
            URL,
            known_hash=f"sha256:{SHA256}",
            fname=FILE,
            path=pooch.os_cache("sottovoce"),
            progressbar=False,
        )
    # A failed connection or cache is an OSError, a wrong checksum a ValueError.
    except (OSError, ValueError) as error:
        raise DatasetError(
            f"the Adult data cannot be downloaded from {URL} ({type(error).__name__}); "
            f"pass --data DIR or set {VARIABLE} to a folder that has {FILE}"
        ) from error
    finally:
        logger.setLevel(level)
    return Path(fetched)
