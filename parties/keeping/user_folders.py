"""Folders of this program in a user's home, by the XDG base directory specification."""

from __future__ import annotations

import os
from pathlib import Path


def user_folder(variable: str, usual: str) -> Path:
    """Folder of this program for one kind of files.

    Args:
        variable: the environment variable that names the folder of all programs. It counts if its
            path is absolute.
        usual: that folder without the variable, relative to the user's home.

    Raises:
        RuntimeError: the user has no home, or one that depends on where a program runs.
    """
    named = os.environ.get(variable, "")
    if os.path.isabs(named):
        return Path(named) / "sottovoce"
    if not os.path.isabs(os.environ.get("HOME", "/")):
        raise RuntimeError("HOME is not an absolute path")
    return Path.home() / usual / "sottovoce"


def cache_folder() -> Path:
    """Folder for files that can be fetched or made again.

    Raises:
        RuntimeError: the user has no home.
    """
    return user_folder("XDG_CACHE_HOME", ".cache")
