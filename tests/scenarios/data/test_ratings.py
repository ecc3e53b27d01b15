"""Ratings: MovieLens, from a folder or its public home, and Clothing from a path."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
import socket
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from protocol.variants.keyvalue.records import key_values
from scenarios import DatasetError, movielens
from scenarios.data import ratings as ratings_module
from scenarios.data.ratings import CLOTHING, FILE, HEADER, SHA256, Ratings, clothing, read_movielens
from scenarios.data.raw_files import VARIABLE
from tests.raw_data import RAW, needs

NAN = math.nan
LINES = ["7,10,5.0,1", "3,20,0.5,2", "3,10,2.5,3", "9,20,4.0,4"]
ADVICE = "pass --data DIR or set SOTTOVOCE_DATA to a folder that has ratings.csv"
EXCERPT = "\n".join([HEADER, *LINES, ""]).encode()


class GroupLens:
    """Serves one archive on this machine, and counts who asks for it.

    Args:
        content: of the archive.
        promised: how long it is said to be; None for its length.
        status: of the answer.
    """

    def __init__(self, content: bytes, promised: int | None = None, status: int = 200) -> None:
        self.asked = 0
        home = self

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                home.asked += 1
                self.send_response(status)
                self.send_header("Content-Length", str(promised or len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args: object) -> None:
                """Say nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.server.server_port}/ml-latest-small.zip"


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The user's cache; no test of this file goes to the network."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    # Nobody listens there.
    monkeypatch.setattr(ratings_module, "URL", f"http://127.0.0.1:{port}/ml-latest-small.zip")
    return tmp_path / "cache" / "sottovoce"


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., GroupLens]]:
    """Serve an archive in the place of GroupLens, with the arguments of it."""
    servers = []

    def start(content: bytes, promised: int | None = None, status: int = 200) -> GroupLens:
        home = GroupLens(content, promised, status)
        servers.append(home.server)
        threading.Thread(target=home.server.serve_forever, args=(0.01,)).start()
        monkeypatch.setattr(ratings_module, "URL", home.url)
        return home

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def archive(content: bytes) -> bytes:
    """An archive as GroupLens packs it, with this file of ratings."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as written:
        written.writestr("ml-latest-small/README.txt", "a licence")
        written.writestr("ml-latest-small/ratings.csv", content)
    return packed.getvalue()


@pytest.fixture
def excerpt_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The excerpt is what GroupLens should have."""
    monkeypatch.setattr(ratings_module, "SHA256", hashlib.sha256(EXCERPT).hexdigest())


def held(ratings: Ratings) -> NDArray[np.float64]:
    """The users' values, NaN where there is none."""
    table = np.full((ratings.users, len(ratings.items)), NAN)
    table[ratings.rows, ratings.columns] = ratings.values
    return table


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


@pytest.mark.usefixtures("excerpt_expected")
def test_a_download_is_checked_and_kept(serve: Callable[..., GroupLens], cache: Path) -> None:
    home = serve(archive(EXCERPT.replace(b"\n", b"\r\n")))
    for _ in range(2):
        assert movielens(None).users == 3
    assert home.asked == 1
    [kept] = cache.iterdir()
    assert kept.read_bytes() == EXCERPT
    # What was damaged since is fetched again.
    kept.write_bytes(EXCERPT[:-1])
    assert movielens(None).users == 3
    assert home.asked == 2
    assert kept.read_bytes() == EXCERPT


@pytest.mark.parametrize(
    "content",
    [
        b"<html>not here</html>",
        archive(EXCERPT + b"9,10,4.0,4\n"),
        archive(EXCERPT)[:-30],
        archive(EXCERPT).replace(b"ratings.csv", b"ratings.txt"),
        archive(EXCERPT + b" " * 10_000_000),
    ],
    ids=["page", "other ratings", "cut archive", "no ratings", "too much unpacked"],
)
@pytest.mark.usefixtures("excerpt_expected")
def test_another_download_is_refused(
    content: bytes, serve: Callable[..., GroupLens], cache: Path
) -> None:
    home = serve(content)
    with pytest.raises(DatasetError) as caught:
        movielens(None)
    assert str(caught.value) == f"{home.url} has other ratings than expected (SHA-256); {ADVICE}"
    assert not cache.exists()
    # It is asked for again.
    serve(archive(EXCERPT))
    assert movielens(None).users == 3


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            {"content": archive(EXCERPT)[:-30], "promised": len(archive(EXCERPT))},
            "30 more expected",
        ),
        ({"content": b"gone", "status": 404}, "HTTP Error 404: Not Found"),
        ({"content": b" " * 5_000_001}, "more than 5,000,000 bytes"),
    ],
    ids=["cut short", "an error", "too much"],
)
def test_a_failed_download_is_reported(
    answer: dict[str, Any], why: str, serve: Callable[..., GroupLens], cache: Path
) -> None:
    home = serve(**answer)
    with pytest.raises(DatasetError) as caught:
        movielens(None)
    said = str(caught.value)
    assert said.startswith(f"the MovieLens data cannot be downloaded from {home.url} (")
    assert said.endswith(f"); {ADVICE}")
    assert why in said
    assert not cache.exists()


def test_without_a_network() -> None:
    with pytest.raises(DatasetError, match=r"cannot be downloaded .*refused.*; pass --data DIR or"):
        movielens(None)


@pytest.mark.usefixtures("excerpt_expected")
def test_a_cache_that_cannot_be_written_is_named(
    serve: Callable[..., GroupLens], cache: Path
) -> None:
    serve(archive(EXCERPT))
    cache.parent.write_text("a file in the place of the folder")
    with pytest.raises(DatasetError) as caught:
        movielens(None)
    assert (
        str(caught.value) == f"{cache}: a part of this path is a file; expected a folder; {ADVICE}"
    )


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
    values = key_values(records.survey)[np.arange(2), records.codes]
    np.testing.assert_allclose(values, [[-1 / 9, -1], [1, NAN], [NAN, 5 / 9]])
    only = read_movielens(EXCERPT, "here").records(1)
    assert only.survey.names == ("item 10",)
    with pytest.raises(ValueError, match="3 items: expected 1 to 2"):
        read_movielens(EXCERPT, "here").records(3)
