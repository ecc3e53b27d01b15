"""Ratings of MovieLens and Clothing: who rated what, as keys with values in [-1, 1].

F. M. Harper and J. A. Konstan, The MovieLens Datasets, ACM TiiS 5(4):19, 2015; its licence keeps it
out of this package.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import zipfile
import zlib
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from parties.keeping.user_folders import cache_folder
from parties.keeping.writing import reason, write_whole
from protocol.randomizers.exact import Floats
from protocol.surveys.records import Records
from protocol.variants.keyvalue.records import key_survey
from scenarios.data import DatasetError
from scenarios.data.key_populations import KeyPopulation
from scenarios.data.raw_files import VARIABLE, raw_file

URL = "https://files.grouplens.org/datasets/movielens/ml-latest-small.zip"
SHA256 = "80da8b3393dae325bbba5a31f291a6ba55d8d4f4396de3c456f2c1635b1b70e8"
"""The SHA-256 of ``ratings.csv`` with the line ends of Unix; the original has those of DOS."""

FILE = "ratings.csv"
HEADER = "userId,movieId,rating,timestamp"
PACKED = f"ml-latest-small/{FILE}"
"""The file's name in the archive."""

CACHED = "movielens-latest-small.csv"
"""The file's name in the user's cache."""

MOST_BYTES = 5_000_000
"""Maximum sizes of the archive and of the file in it, which have 1.0 and 2.5 MB."""

SILENCE = 30.0
"""Seconds that the server may be silent."""

STARS = (0.5, 5.0)
"""The lowest and highest rating of MovieLens."""

CLOTHING = "renttherunway_final_data.json"
CLOTHING_RATINGS = (1.0, 10.0)
"""The lowest and highest rating of Clothing."""


class Ratings(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Ratings: each of one item by one user, once.

    Args:
        name: of the data.
        items: what the d items are called.
        users: the number of users, who each rated something.
        rows: the user of each rating, from 0, shape (ratings,).
        columns: the item of each rating, from 0, shape (ratings,).
        values: the ratings, mapped to [-1, 1], shape (ratings,).
    """

    name: str
    items: tuple[str, ...]
    users: int
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: Floats

    def records(self, most: int) -> Records:
        """Records of what the users hold of the items that most of them have rated.

        Args:
            most: how many items; of equals the first.

        Raises:
            ValueError: there are fewer items.
        """
        if not 1 <= most <= len(self.items):
            raise ValueError(f"{most} items: expected 1 to {len(self.items)}")
        rated = np.bincount(self.columns, minlength=len(self.items))
        chosen = np.sort(np.argsort(-rated, kind="stable")[:most])
        place = np.full(len(self.items), -1)
        place[chosen] = np.arange(most)
        levels, level = np.unique(self.values, return_inverse=True)
        here = place[self.columns] >= 0
        codes = np.zeros((self.users, most), np.int64)
        codes[self.rows[here], place[self.columns[here]]] = level[here] + 1
        items = [f"item {self.items[i]}" for i in chosen.tolist()]
        survey = key_survey(self.name, items, [levels.tolist()] * most)
        return Records(survey, codes)

    def population(self) -> KeyPopulation:
        """The population of which each user is as many: levels are the ratings that occur."""
        levels, level = np.unique(self.values, return_inverse=True)
        cells = self.columns * len(levels) + level
        counts = np.bincount(cells, minlength=len(self.items) * len(levels))
        return KeyPopulation(
            name=self.name,
            keys=self.items,
            shares=counts.reshape(-1, len(levels)) / self.users,
            values=np.broadcast_to(levels, (len(self.items), len(levels))),
        )


def _ratings(
    name: str, users: ArrayLike, items: ArrayLike, ratings: Floats, scale: tuple[float, float]
) -> Ratings:
    """Ratings with users and items numbered in sorted order."""
    low, high = scale
    if not ratings.size:
        raise ValueError("no rating")
    if not ((ratings >= low) & (ratings <= high)).all():
        raise ValueError(f"a rating is not in {low:g} to {high:g}")
    people, rows = np.unique(users, return_inverse=True)
    things, columns = np.unique(items, return_inverse=True)
    if len(np.unique(rows * len(things) + columns)) < len(ratings):
        raise ValueError("a user rated the same item twice")
    return Ratings(
        name=name,
        items=tuple(map(str, things.tolist())),
        users=len(people),
        rows=rows,
        columns=columns,
        values=2 * (ratings - low) / (high - low) - 1,
    )


# MovieLens


def movielens(data: Path | str | None) -> Ratings:
    """The ratings of MovieLens, the small set: 610 users, 9,724 movies, 100,836 ratings.

    The paper has the set of 10,000,054 ratings, with the same scale and about as many missing.

    Args:
        data: a folder that holds ``ratings.csv`` or ``movielens/ratings.csv``. None means the
            folder that the environment variable SOTTOVOCE_DATA names, if it has that file; else it
            comes from GroupLens and is kept in the user's cache. A given file may be another of
            GroupLens' sets, as long as its columns are the same.

    Returns:
        Ratings of 0.5 to 5 stars, as -1 to 1.

    Raises:
        DatasetError: no such file, no download, or not MovieLens' ratings.
    """
    path = raw_file(data, (f"movielens/{FILE}", FILE), "it is downloaded")
    if path is None:
        return read_movielens(downloaded(), URL)
    try:
        return read_movielens(path.read_bytes(), str(path))
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {reason(error)}") from error


def read_movielens(content: bytes, where: str) -> Ratings:
    """Ratings from the content of a ``ratings.csv``.

    Args:
        content: of the file.
        where: it is from, for the error message.

    Raises:
        DatasetError: not MovieLens' ratings.
    """
    header, _, rest = content.partition(b"\n")
    if header.strip() != HEADER.encode():
        raise DatasetError(f"{where} is not MovieLens' {FILE}: the first line is not {HEADER}")
    if not rest.strip():
        raise DatasetError(f"{where} is not MovieLens' {FILE}: no rating")
    try:
        table = np.loadtxt(
            io.BytesIO(rest),
            delimiter=",",
            comments=None,
            dtype=[("user", "i8"), ("movie", "i8"), ("rating", "f8"), ("time", "i8")],
            ndmin=1,
        )
        return _ratings("MovieLens", table["user"], table["movie"], table["rating"], STARS)
    except ValueError as error:
        raise DatasetError(f"{where} is not MovieLens' {FILE}: {error}") from error


def downloaded() -> bytes:
    """The content of ``ratings.csv`` from the user's cache, where it is put first if need be.

    Raises:
        DatasetError: no download, or other ratings than those of September 2018.
    """
    advice = f"pass --data DIR or set {VARIABLE} to a folder that has {FILE}"
    try:
        kept = cache_folder() / CACHED
    except RuntimeError as error:
        raise DatasetError(f"no home folder was found for the MovieLens data; {advice}") from error
    with contextlib.suppress(OSError):
        content = kept.read_bytes()
        if hashlib.sha256(content).hexdigest() == SHA256:
            return content
    content = _unpack(_fetch(advice))
    # The checksum is of the content, which repacking does not change.
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise DatasetError(f"{URL} has other ratings than expected (SHA-256); {advice}")
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, content, private=True)
    except OSError as error:
        raise DatasetError(f"{error.filename}: {reason(error)}; {advice}") from error
    return content


def _fetch(advice: str) -> bytes:
    """GroupLens' archive.

    Args:
        advice: the end of the error message.

    Raises:
        DatasetError: no download.
    """
    # Imported here: nothing else needs an HTTP client.
    from http.client import HTTPException, IncompleteRead
    from urllib.error import HTTPError
    from urllib.request import urlopen

    try:
        with urlopen(URL, timeout=SILENCE) as response:
            content: bytes = response.read(MOST_BYTES + 1)
            if len(content) > MOST_BYTES:
                raise ValueError(f"more than {MOST_BYTES:,} bytes")
            if response.length:
                raise IncompleteRead(content, response.length)
    except (OSError, ValueError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()
        why = str(error).strip("<>")
        raise DatasetError(
            f"the MovieLens data cannot be downloaded from {URL} ({why}); {advice}"
        ) from error
    return content


def _unpack(archive: bytes) -> bytes:
    """The ratings in GroupLens' archive with Unix line ends; empty if it has none."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as files, files.open(PACKED) as file:
            return file.read(MOST_BYTES).replace(b"\r\n", b"\n")
    except Exception:  # Of many kinds, for what is not such an archive.
        return b""


# Clothing


class _Fitting(msgspec.Struct, frozen=True):
    """Fields of one line of the Clothing data."""

    user_id: str
    item_id: str
    rating: str | None


def clothing(data: Path | str | None) -> Ratings:
    """The ratings of Clothing Fit Dataset for Size Recommendation (RentTheRunway).

    Lines without a rating are left out, and of several ratings of one item by one user the last
    counts.

    Args:
        data: a folder that holds ``renttherunway_final_data.json``, with or without ``.gz``, or has
            it in its folder ``clothing``: one JSON object a line, with texts ``user_id``,
            ``item_id`` and ``rating``. None means the folder that SOTTOVOCE_DATA names.

    Returns:
        Ratings of 1 to 10, as -1 to 1.

    Raises:
        DatasetError: the file is missing, unreadable, or has a malformed line.
    """
    names = [
        f"{below}{name}" for name in (CLOTHING, f"{CLOTHING}.gz") for below in ("", "clothing/")
    ]
    path = raw_file(data, names, "there is none")
    if path is None:
        raise DatasetError(
            f"no Clothing data: pass --data DIR or set {VARIABLE} to a folder that has {CLOTHING}"
        )
    decoder = msgspec.json.Decoder(_Fitting)
    last: dict[tuple[str, str], float] = {}
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            for line in lines:
                number += 1
                found = decoder.decode(line)
                if found.rating is not None:
                    last[found.user_id, found.item_id] = float(found.rating)
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error
    except ValueError as error:
        raise DatasetError(f"{path}: line {number} is not a line of Clothing: {error}") from error
    users, items = ([pair[place] for pair in last] for place in range(2))
    try:
        ratings = np.array(list(last.values()), np.float64)
        return _ratings("Clothing", users, items, ratings, CLOTHING_RATINGS)
    except ValueError as error:
        raise DatasetError(f"{path} is not the Clothing data: {error}") from error
