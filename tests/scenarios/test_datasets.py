"""Data sets: where the Adult file is found, how it is read, and the town's distribution."""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pooch
import pytest
import requests
from numpy.typing import NDArray

from protocol.errors import SurveyError
from protocol.randomness import WORDS
from scenarios.datasets import DatasetError
from scenarios.datasets import adult as adult_module
from scenarios.datasets import town as town_module
from scenarios.datasets.adult import ADULT, FILE, SHA256, VARIABLE, adult
from scenarios.datasets.town import AGE, CLINIC, DISTRICT, SMOKES, TOWN, town, town_distribution
from tests.statistical import ALPHA, WRONG, chi_square_p_value

EXCERPT = """\
39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, \
2174, 0, 40, United-States, <=50K
54, ?, 180211, Some-college, 10, Married-civ-spouse, ?, Husband, Asian-Pac-Islander, Male, \
0, 0, 60, South, >50K
37, Private, 284582, Masters, 14, Married-civ-spouse, Exec-managerial, Wife, White, Female, \
0, 0, 40, ?, <=50K

"""
EXCERPT_ROWS = [
    ["State-gov", "Bachelors", "Never-married", "Adm-clerical", "Not-in-family", "White", "Male"],
    ["?", "Some-college", "Married-civ-spouse", "?", "Husband", "Asian-Pac-Islander", "Male"],
    ["Private", "Masters", "Married-civ-spouse", "Exec-managerial", "Wife", "White", "Female"],
]
INCOMES = ["<=50K", ">50K", "<=50K"]


def real_file() -> Path | None:
    """The folder of the whole file, if this machine has it; it is never downloaded here."""
    named = os.environ.get(VARIABLE)
    folders = [Path(named), Path(named) / "adult"] if named else []
    folders.append(Path(pooch.os_cache("sottovoce")))
    return next((folder for folder in folders if (folder / FILE).is_file()), None)


REAL = real_file()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / FILE).write_text(EXCERPT)
    return tmp_path


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test of this file goes to the network or depends on the caller's environment."""

    def refuse(*args: object, **kwargs: object) -> None:
        raise requests.exceptions.ConnectionError("this test is offline")

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", refuse)
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """UCI serves the excerpt, whose checksum is the pinned one; the list has the requests."""
    asked: list[str] = []

    def serve(self: object, url: str, output_file: str, pooch: object, **kwargs: object) -> None:
        asked.append(url)
        Path(output_file).write_text(EXCERPT)

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", serve)
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)
    monkeypatch.setattr(adult_module, "SHA256", hashlib.sha256(EXCERPT.encode()).hexdigest())
    return asked


# Adult


def test_adult_has_the_eight_categorical_attributes() -> None:
    assert ADULT.names == (
        "workclass",
        "education",
        "marital-status",
        "occupation",
        "relationship",
        "race",
        "sex",
        "income",
    )
    assert ADULT.sizes == (9, 16, 7, 15, 6, 5, 2, 2)
    assert ADULT.cells == 1_814_400
    assert not any(attribute.ordinal for attribute in ADULT.attributes)
    missing = {attribute.name: attribute.missing for attribute in ADULT.attributes}
    assert {name for name, category in missing.items() if category} == {"workclass", "occupation"}
    assert ADULT.attribute("workclass").categories[-1] == "?" == missing["workclass"]
    assert ADULT.attribute("occupation").categories[-1] == "?" == missing["occupation"]


@pytest.mark.skipif(
    REAL is None, reason=f"no {FILE}: {VARIABLE} names no folder that has it, nor is it cached"
)
def test_the_whole_file() -> None:
    assert REAL is not None
    assert hashlib.sha256((REAL / FILE).read_bytes()).hexdigest() == SHA256
    records = adult(REAL)
    assert len(records) == 32_561
    assert records.codes.dtype == np.dtype("u1")

    def count(name: str, category: str) -> int:
        return int(records.counts([name])[ADULT.attribute(name).code(category)])

    assert count("workclass", "?") == 1_836
    assert count("occupation", "?") == 1_843
    assert count("income", ">50K") == 7_841
    assert count("sex", "Female") == 10_771
    assert count("workclass", "Never-worked") == 7
    assert count("workclass", "Without-pay") == 14
    assert count("occupation", "Armed-Forces") == 9
    for name in ADULT.names:
        assert records.counts([name]).min() > 0


@pytest.mark.parametrize("below", ["", "adult"])
def test_an_excerpt_in_a_folder_is_read(tmp_path: Path, below: str) -> None:
    (tmp_path / below).mkdir(exist_ok=True)
    (tmp_path / below / FILE).write_text(EXCERPT)
    rows = [[*row, income] for row, income in zip(EXCERPT_ROWS, INCOMES, strict=True)]
    assert [list(row.values()) for row in adult(tmp_path).to_rows()] == rows


def test_line_ends_of_either_kind_are_read(folder: Path) -> None:
    expected = adult(folder)
    (folder / FILE).write_bytes(EXCERPT.replace("\n", "\r\n").encode())
    assert adult(folder) == expected


def test_the_environment_names_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(folder))
    assert len(adult(None)) == 3


def test_a_folder_that_is_passed_comes_before_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(folder / "elsewhere"))
    assert len(adult(folder)) == 3


@pytest.mark.parametrize("by_environment", [False, True])
def test_a_folder_without_the_file_is_an_error_that_names_both_places(
    served: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_environment: bool
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(DatasetError) as caught:
        adult(None if by_environment else tmp_path)
    message = str(caught.value)
    assert str(tmp_path / FILE) in message
    assert str(tmp_path / "adult" / FILE) in message
    assert "--data DIR" in message
    assert "\n" not in message
    assert not served


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace(", <=50K", ", <=50K."), r"row 1, column 'income': .*'<=50K\.'"),
        (lambda text: text.replace("South, ", ""), "row 2: 14 fields, but the header has 15"),
        (lambda text: text.replace("Wife", "?"), r"row 3, column 'relationship': unknown .*'\?'"),
        (lambda text: text.replace("Wife", ""), "row 3, column 'relationship': .*missing"),
        (lambda text: "|1x3 Cross validator\n" + text, "row 1: 1 fields"),
        (lambda text: "\n" + text, "row 1: a blank line"),
        (lambda text: "", "no records"),
        (lambda text: text.replace("South", "\xe9"), "not text"),
    ],
)
def test_another_file_is_refused(folder: Path, change: Callable[[str], str], message: str) -> None:
    (folder / FILE).write_bytes(change(EXCERPT).encode("latin-1"))
    with pytest.raises(DatasetError, match=message) as caught:
        adult(folder)
    assert str(folder / FILE) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value.__cause__, SurveyError)


@pytest.mark.parametrize("environment", [None, ""])
def test_without_a_folder_the_file_is_downloaded_once(
    served: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, environment: str | None
) -> None:
    if environment is not None:
        monkeypatch.setenv(VARIABLE, environment)
    first = adult(None)
    assert len(first) == 3
    assert served == [adult_module.URL]
    assert adult(None) == first
    assert len(served) == 1
    # What is cached is checked, and fetched anew if it is not the file any more.
    cached = tmp_path / "cache" / "sottovoce" / FILE
    cached.write_text(EXCERPT.replace("Wife", "Husband"))
    assert adult(None) == first
    assert len(served) == 2


def test_a_download_says_nothing(served: list[str]) -> None:
    said: list[logging.LogRecord] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record)

    logger, listener = pooch.get_logger(), Listener()
    level = logger.level
    logger.addHandler(listener)
    logger.setLevel(logging.DEBUG)
    try:
        adult(None)
        assert served
        assert not said
        assert logger.level == logging.DEBUG
    finally:
        logger.setLevel(level)
        logger.removeHandler(listener)


def test_a_download_with_another_checksum_is_refused(
    served: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(adult_module, "SHA256", SHA256)
    with pytest.raises(DatasetError, match=r"cannot be downloaded .*--data DIR") as caught:
        adult(None)
    assert len(served) == 1
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "cache" / "sottovoce" / FILE).exists()


def test_offline_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / project)
    with pytest.raises(DatasetError) as caught:
        adult(None)
    message = str(caught.value)
    assert "ConnectionError" in message
    assert f"pass --data DIR or set {VARIABLE}" in message
    assert "\n" not in message


def test_the_http_client_is_loaded_only_for_a_download(folder: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from scenarios.datasets.adult import adult; "
        "adult(Path(sys.argv[1])); print([m for m in ('pooch', 'requests') if m in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert run.stdout.strip() == "[]"


# The town


def joint(
    district: NDArray[np.float64],
    age: NDArray[np.float64],
    smokes: NDArray[np.float64],
    clinic: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The chain rule, cell by cell, from the tables of per cents."""
    cells = np.empty(TOWN.sizes)
    for d, a, s, c in np.ndindex(TOWN.sizes):
        cells[d, a, s, c] = district[0, d] * age[d, a] * smokes[d, s] * clinic[2 * a + s, c] / 1e8
    return cells


TABLES = tuple(np.array(table, float) for table in (DISTRICT, AGE, SMOKES, CLINIC))


def test_every_row_of_a_table_is_a_distribution() -> None:
    for table in (DISTRICT, AGE, SMOKES, CLINIC):
        for row in table:
            assert sum(row) == 100
            assert min(row) > 0


def test_the_joint_distribution_follows_the_stated_dependence() -> None:
    distribution = town_distribution()
    np.testing.assert_allclose(distribution, joint(*TABLES), rtol=1e-12)
    assert distribution.sum() == pytest.approx(1, abs=1e-12)
    # Age and smoking are dependent, but not within a district.
    age_smokes = distribution.sum(axis=(0, 3))
    assert np.abs(age_smokes - np.outer(age_smokes.sum(1), age_smokes.sum(0))).max() > 0.01
    within = distribution.sum(axis=3)[0] / distribution[0].sum()
    np.testing.assert_allclose(within, np.outer(within.sum(1), within.sum(0)), rtol=1e-12)


def test_residents_follow_the_distribution() -> None:
    counts = town(1_000_000, seed=1).counts(TOWN.names)
    assert chi_square_p_value(counts.ravel(), town_distribution().ravel()) > ALPHA


@pytest.mark.parametrize(("table", "row"), [(0, 0), (1, 2), (2, 1), (3, 5)])
def test_the_test_would_notice_a_table_that_is_wrong_by_a_tenth(table: int, row: int) -> None:
    counts = town(1_000_000, seed=1).counts(TOWN.names)
    wrong = [each.copy() for each in TABLES]
    wrong[table][row, wrong[table][row].argmax()] *= WRONG
    wrong[table][row] *= 100 / wrong[table][row].sum()
    assert chi_square_p_value(counts.ravel(), joint(*wrong).ravel()) < ALPHA


def test_a_word_is_compared_with_exact_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = WORDS * 30 // 100, WORDS * 75 // 100
    edges = [0, first - 1, first, second - 1, second, WORDS - 1]

    class Edges:
        """A stream whose words are the bounds of the districts and their neighbours."""

        def __init__(self, key: bytes) -> None:
            pass

        def derive(self, purpose: str) -> Edges:
            return self

        def words(self, n: int) -> NDArray[np.uint64]:
            return np.array(edges[:n], np.uint64)

    monkeypatch.setattr(town_module, "Stream", Edges)
    assert town(6, seed=0).codes[:, 0].tolist() == [0, 0, 1, 1, 2, 2]


def test_a_town_is_the_same_on_every_platform() -> None:
    assert town(5, seed=7).codes.tolist() == [
        [0, 3, 1, 2],
        [1, 2, 0, 3],
        [0, 1, 0, 0],
        [1, 2, 0, 0],
        [0, 3, 1, 2],
    ]


def test_a_larger_town_begins_with_the_smaller_one() -> None:
    assert town(1_000, seed=3).take(10) == town(10, seed=3)
    assert town(1_000, seed=3) != town(1_000, seed=4)


@pytest.mark.parametrize(("n", "seed"), [(0, 1), (-1, 1), (5, -1)])
def test_an_impossible_town_is_refused(n: int, seed: int) -> None:
    with pytest.raises(ValueError, match="expected"):
        town(n, seed)
