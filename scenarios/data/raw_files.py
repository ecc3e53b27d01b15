"""Files that a data set is read from: raw ones in a folder, or those of this package."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from parties.keeping.writing import reason
from scenarios.data import DatasetError

VARIABLE = "SOTTOVOCE_DATA"
"""The environment variable that names the folder of raw files."""

PACKAGED = files("scenarios.data") / "packaged"
"""The files that come with this package. The README beside them has sources and licences."""

SHA256 = {
    "adult.codes.gz": "87e9ba242c5e8dc13aada6addaa8a3c4dee1a47048790937c27215852737bc5c",
    "survey.json": "6ef3f4e478e6e703aff25e4769c43f3efc0dcdbbefdb0756516fc49b58c321e8",
    "alarm.json": "32b3f2d82ce96eae02c54bce25056653ad327e5ece5e8c639a45342af8a39712",
    "child.json": "559ea2006ca0aa62f3da1251565ae6ecfc72da40a93f0614774096056e3e1231",
}
"""The SHA-256 of the packaged files, decompressed: compressors differ between versions."""


def raw_file(
    data: Path | str | None,
    names: Sequence[str],
    otherwise: str = "the copy that comes with sottovoce is read",
) -> Path | None:
    """The first of some raw files that is there, or None: then another copy is to be read.

    Args:
        data: a folder that has to have one of the files. None means the folder that the environment
            variable SOTTOVOCE_DATA names, if it does, which need not have any.
        names: the files, relative to the folder.
        otherwise: what happens without ``data``, for the error message.

    Raises:
        DatasetError: ``data`` has none of them.
    """
    named = os.environ.get(VARIABLE)
    given = (named or None) if data is None else data
    if given is None:
        return None
    folder = Path(given)
    for name in names:
        if (folder / name).is_file():
            return folder / name
    if data is None:
        return None
    raise DatasetError(f"{data}: expected a file {' or '.join(names)}; without --data, {otherwise}")


def packaged(name: str) -> bytes:
    """The content of a file that comes with this package, decompressed if its name ends in ``.gz``.

    Raises:
        DatasetError: the file is missing, or differs from the packaged one.
    """
    path = PACKAGED / name
    try:
        content = path.read_bytes()
        if name.endswith(".gz"):
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        why = reason(error) if isinstance(error, OSError) else error
        raise DatasetError(f"{path} cannot be read: {why}; install sottovoce again") from error
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256[name]:
        raise DatasetError(
            f"{path} is damaged: its SHA-256 is {found}, expected {SHA256[name]}; "
            "install sottovoce again"
        )
    return content
