"""Data sets: Adult packaged and raw, the packaged files, and the town's distribution."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from protocol import SurveyError
from protocol.crypto.randomness import WORDS
from scenarios import (
    DatasetError,
    adult,
    adult_with_age,
    alarm_network,
    child_network,
    survey_network,
    town,
    town_distribution,
)
from scenarios.data import raw_files
from scenarios.data import town as town_module
from scenarios.data.adult import ADULT, FILE, packed
from scenarios.data.raw_files import VARIABLE, packaged
from scenarios.data.town import AGE, CLINIC, DISTRICT, SMOKES, TOWN
from tests.raw_data import RAW, needs
from tests.scenarios.command import ROOT, complaint, sottovoce
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

SHA256_OF_RAW = "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / FILE).write_text(EXCERPT)
    return tmp_path


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


def test_all_records() -> None:
    records = adult(None)
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


@needs("adult/adult.data")
def test_what_is_packaged_is_made_from_the_raw_file() -> None:
    path = RAW / "adult" / FILE
    assert sha256(path.read_bytes()).hexdigest() == SHA256_OF_RAW
    assert gzip.decompress(packed(path)) == packaged("adult.codes.gz")


@needs("adult/adult.data")
def test_packaged_records_are_those_of_the_raw_file() -> None:
    assert adult(None) == adult(RAW)
    assert adult_with_age(None) == adult_with_age(RAW)


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


def test_a_folder_without_the_file_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        adult(tmp_path)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path}: expected a file adult.data or adult/adult.data; ")
    assert "without --data" in message
    assert "\n" not in message


@pytest.mark.parametrize("environment", ["", "a folder of other data"])
def test_without_the_raw_file_the_packaged_copy_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, environment)
    assert len(adult(None)) == 32_561


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


# Packaged files


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the packaged files, which is read in their place."""
    folder = tmp_path / "packaged"
    folder.mkdir()
    for name in raw_files.SHA256:
        (folder / name).write_bytes((raw_files.PACKAGED / name).read_bytes())
    monkeypatch.setattr(raw_files, "PACKAGED", folder)
    assert packaged("child.json") == (folder / "child.json").read_bytes()
    return folder


def refused(load: Callable[[Path | None], object]) -> str:
    with pytest.raises(DatasetError) as caught:
        load(None)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("adult.codes.gz", adult),
        ("adult.codes.gz", adult_with_age),
        ("survey.json", survey_network),
        ("alarm.json", alarm_network),
        ("child.json", child_network),
    ],
)
def test_damaged_files_are_refused(
    copied: Path, name: str, load: Callable[[Path | None], object]
) -> None:
    path = copied / name
    content = bytearray(packaged(name))
    content[len(content) // 2] ^= 1
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    said = refused(load)
    assert said.startswith(f"{path} is damaged: its SHA-256 is {sha256(content).hexdigest()}, ")
    assert raw_files.SHA256[name] in said
    path.write_bytes(b"")
    assert refused(load).startswith(f"{path} is damaged: ")
    path.unlink()
    assert refused(load).startswith(f"{path} cannot be read: no such file or folder; ")


def test_packing_keeps_records_and_categories(
    copied: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = packed(folder / FILE)
    (copied / "adult.codes.gz").write_bytes(content)
    digest = sha256(gzip.decompress(content)).hexdigest()
    monkeypatch.setitem(raw_files.SHA256, "adult.codes.gz", digest)
    assert adult(None) == adult(folder)
    assert adult_with_age(None) == adult_with_age(folder)
    assert adult_with_age(None).codes[:, 0].tolist() == [1, 2, 1]


@pytest.mark.parametrize("place", [0, 30_000, -5])
def test_damaged_compression_is_refused(copied: Path, place: int) -> None:
    path = copied / "adult.codes.gz"
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    assert refused(adult).startswith(f"{path} cannot be read: ")


def test_a_damaged_file_is_one_line_on_the_command_line(copied: Path) -> None:
    (copied / "survey.json").write_text("[]")
    said = complaint(sottovoce("run", "rrba-survey"))
    assert said.startswith(f"{copied / 'survey.json'} is damaged: ")


def test_the_readme_of_the_files_has_their_checksums_and_licences() -> None:
    text = (raw_files.PACKAGED / "README.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\S+)` \|(.*)\|$", text, re.MULTILINE))
    assert rows.keys() == raw_files.SHA256.keys()
    for name, digest in raw_files.SHA256.items():
        assert f"`{digest}`" in rows[name]
        assert "https://creativecommons.org/licenses/by" in rows[name]
    assert SHA256_OF_RAW in text


def test_no_network_and_no_environment_are_needed(tmp_path: Path) -> None:
    script = (
        "import socket, sys\n"
        "def refuse(*args, **kwargs): raise OSError('no network')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "from scenarios.data.adult import adult_with_age\n"
        "from scenarios.data.networks import alarm_network, child_network, survey_network\n"
        "print(len(adult_with_age(None)))\n"
        "for load in (survey_network, alarm_network, child_network): print(len(load(None).names))\n"
        "print([name for name in ('http.client', 'ssl', 'urllib.request') if name in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
    )
    assert run.stdout.split("\n") == ["32561", "6", "37", "20", "[]", ""]
    assert not list(tmp_path.iterdir())


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
