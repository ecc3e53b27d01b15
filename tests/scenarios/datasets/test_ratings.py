"""Ratings: MovieLens, from a folder or its public home, and Clothing from a path."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pooch
import pytest
import requests
from numpy.typing import NDArray

from protocol.variants.keyvalue.records import values_of
from scenarios.datasets import DatasetError
from scenarios.datasets import ratings as ratings_module
from scenarios.datasets.ratings import (
    CLOTHING,
    FILE,
    HEADER,
    SHA256,
    Ratings,
    clothing,
    movielens,
    read_movielens,
)
from scenarios.datasets.raw_files import VARIABLE
from tests.raw_data import RAW, needs

NAN = math.nan
LINES = ["7,10,5.0,1", "3,20,0.5,2", "3,10,2.5,3", "9,20,4.0,4"]
EXCERPT = "\n".join([HEADER, *LINES, ""]).encode()


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test of this file goes to the network."""

    def refuse(*args: object, **kwargs: object) -> None:
        raise requests.exceptions.ConnectionError("this test is offline")

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", refuse)
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)


def held(ratings: Ratings) -> NDArray[np.float64]:
    """The users' values, NaN where there is none."""
    table = np.full((ratings.users, len(ratings.items)), NAN)
    table[ratings.rows, ratings.columns] = ratings.values
    return table


def serve(monkeypatch: pytest.MonkeyPatch, content: bytes) -> list[str]:
    """GroupLens serves an archive with this file; the list has the requests."""
    asked: list[str] = []

    def answer(self: object, url: str, output_file: Any, pooch: object, **kwargs: object) -> None:
        asked.append(url)
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("ml-latest-small/README.txt", "a licence")
            archive.writestr("ml-latest-small/ratings.csv", content)
        Path(output_file).write_bytes(packed.getvalue())

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", answer)
    return asked


# MovieLens


@pytest.mark.parametrize("content", [EXCERPT, EXCERPT.replace(b"\n", b"\r\n")])
@pytest.mark.parametrize("below", ["", "movielens"])
def test_an_excerpt_in_a_folder_is_read(
    tmp_path: Path, below: str, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / below).mkdir(exist_ok=True)
    (tmp_path / below / FILE).write_bytes(content)
    ratings = movielens(tmp_path)
    assert (ratings.users, ratings.items) == (3, ("10", "20"))
    # 0.5 to 5 stars are -1 to 1: 2.5 is -1/9, and 4 is 5/9. Users are 3, 7 and 9.
    expected = [[-1 / 9, -1.0], [1.0, NAN], [NAN, 5 / 9]]
    np.testing.assert_allclose(held(ratings), expected)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    np.testing.assert_array_equal(movielens(None).values, ratings.values)
    population = ratings.population()
    assert population.shares.shape == (2, 4)
    np.testing.assert_allclose(population.frequencies, np.mean(~np.isnan(expected), axis=0))
    np.testing.assert_allclose(population.means, np.nanmean(expected, axis=0))


@needs("movielens/ratings.csv")
def test_the_whole_file() -> None:
    content = (RAW / "movielens" / FILE).read_bytes()
    assert hashlib.sha256(content).hexdigest() == SHA256
    ratings = movielens(RAW)
    assert (ratings.users, len(ratings.items), len(ratings.values)) == (610, 9_724, 100_836)
    population = ratings.population()
    assert population.shares.shape == (9_724, 10)
    assert population.frequencies.mean() == pytest.approx(100_836 / 610 / 9_724)
    assert population.frequencies.min() == pytest.approx(1 / 610)
    # Forrest Gump, 329 ratings, and Shawshank, whose mean is 4.429 stars of 0.5 to 5.
    assert population.frequencies[population.keys.index("356")] == pytest.approx(329 / 610)
    stars = 2.25 * (population.means[population.keys.index("318")] + 1) + 0.5
    assert stars == pytest.approx(4.429, abs=5e-4)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"user,movie,rating\n1,2,3\n", "first line"),
        (b"", "first line"),
        (HEADER.encode(), "no rating"),
        (EXCERPT + b"1,2,5.5,1\n", "0.5 to 5"),
        (EXCERPT + b"1,2,nan,1\n", "0.5 to 5"),
        (EXCERPT + b"7,10,1.0,1\n", "twice"),
        (EXCERPT + b"7,one,1.0,1\n", "one"),
        (EXCERPT + b"7,10,1.0\n", "column"),
    ],
)
def test_other_content_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(DatasetError, match=message) as caught:
        read_movielens(content, "here.csv")
    assert str(caught.value).startswith("here.csv is not MovieLens' ratings.csv: ")
    assert "\n" not in str(caught.value)


def test_a_missing_file_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(
        DatasetError, match=r"movielens/ratings.csv or ratings.csv; without --data, it is d"
    ):
        movielens(tmp_path)
    with pytest.raises(DatasetError, match=r"ConnectionError.*pass --data DIR or set SOTTOVOCE"):
        movielens(None)


def test_a_download_is_checked_and_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = serve(monkeypatch, EXCERPT.replace(b"\n", b"\r\n"))
    with pytest.raises(DatasetError, match="SHA-256"):
        movielens(None)
    # What is wrong is not kept, so that it is asked for again.
    monkeypatch.setattr(ratings_module, "SHA256", hashlib.sha256(EXCERPT).hexdigest())
    for _ in range(2):
        assert movielens(None).users == 3
    assert asked == [ratings_module.URL] * 2


def test_an_archive_that_is_none_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def answer(self: object, url: str, output_file: Any, pooch: object, **kwargs: object) -> None:
        Path(output_file).write_bytes(b"<html>not here</html>")

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", answer)
    with pytest.raises(DatasetError, match="SHA-256"):
        movielens(None)
    serve(monkeypatch, EXCERPT)
    monkeypatch.setattr(ratings_module, "SHA256", hashlib.sha256(EXCERPT).hexdigest())
    assert movielens(None).users == 3


# Clothing


def worn(*lines: tuple[str, str, str | None]) -> str:
    return "".join(
        json.dumps({"fit": "small", "user_id": user, "rating": rating, "item_id": item}) + "\n"
        for user, item, rating in lines
    )


@pytest.mark.parametrize("name", [CLOTHING, f"{CLOTHING}.gz", f"clothing/{CLOTHING}"])
def test_clothing_is_read_from_a_folder(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = worn(("u", "x", "10"), ("v", "x", None), ("v", "y", "1"), ("u", "x", "5.5"))
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    ratings = clothing(tmp_path)
    assert (ratings.users, ratings.items) == (2, ("x", "y"))
    np.testing.assert_allclose(held(ratings), [[0.0, NAN], [NAN, -1.0]], atol=1e-15)
    with pytest.raises(DatasetError, match="no Clothing data: pass --data DIR or set"):
        clothing(None)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert clothing(None).users == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no rating"),
        (worn(("u", "x", "11")), "1 to 10"),
        (worn(("u", "x", "5")) + "{}\n", "line 2"),
        (worn(("u", "x", "good")), "line 1"),
    ],
)
def test_other_clothing_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / CLOTHING).write_text(text)
    with pytest.raises(DatasetError, match=message) as caught:
        clothing(tmp_path)
    assert "\n" not in str(caught.value)


def test_clothing_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    for content in (b"{}", gzip.compress(worn(("u", "x", "5")).encode())[:-9]):
        (tmp_path / f"{CLOTHING}.gz").write_bytes(content)
        with pytest.raises(DatasetError, match=f"{CLOTHING}.gz cannot be read"):
            clothing(tmp_path)


def test_ratings_are_records_of_the_items_rated_most() -> None:
    records = read_movielens(EXCERPT, "here").records(2)
    # Items 10 and 20 have two ratings each; of the users 3, 7 and 9 the first rated both.
    assert records.survey.names == ("item 10", "item 20")
    values = values_of(records.survey)[np.arange(2), records.codes]
    np.testing.assert_allclose(values, [[-1 / 9, -1], [1, NAN], [NAN, 5 / 9]])
    only = read_movielens(EXCERPT, "here").records(1)
    assert only.survey.names == ("item 10",)
    with pytest.raises(ValueError, match="3 items: expected 1 to 2"):
        read_movielens(EXCERPT, "here").records(3)
