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
        RuntimeError: the user has no home.
    """
    named = os.environ.get(variable, "")
    return (Path(named) if os.path.isabs(named) else Path.home() / usual) / "sottovoce"


def cache_folder() -> Path:
    """Folder of what can be fetched or made again.

    Raises:
        RuntimeError: the user has no home.
    """
    return user_folder("XDG_CACHE_HOME", ".cache")
