"""Hints on mistyped names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def did_you_mean(name: str, known: Iterable[str], *, similar: float = 0.6) -> str:
    """The end of an error about an unknown name: the nearest known one, or an empty text.

    Args:
        name: the unknown one.
        known: the others.
        similar: required similarity of a name, from 0 to 1.
    """
    from difflib import get_close_matches

    names = list(known)
    near = [each for each in names if each.casefold() == name.casefold()]
    near = near or get_close_matches(name, names, n=1, cutoff=similar)
    return f"; did you mean {near[0]!r}?" if near else ""


def name_hint(name: str, known: Iterable[str]) -> str:
    """End of the error about an unknown name in a list, which may lack its commas."""
    if ";" in name:
        return "; expected commas between names, not semicolons."
    return did_you_mean(name, known)


def parameter_hint(name: str, known: Sequence[str]) -> str:
    """The end of an error about an unknown parameter: the nearest known one, if any, and all."""
    near = did_you_mean(name, known)
    return f"{near} It has {', '.join(known)}" if near else f"; it has {', '.join(known)}"
