"""Checks as test functions for pytest, and their complaints."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec

P = ParamSpec("P")


def require(condition: bool, complaint: str) -> None:
    """Fail with a complaint unless a condition holds.

    Raises:
        AssertionError: it does not.
    """
    if not condition:
        raise AssertionError(complaint)


def as_test(check: Callable[P, object]) -> Callable[P, Callable[[], None]]:
    """Make test functions of a check; they take the arguments of the check."""

    @functools.wraps(check)
    def make(*args: P.args, **kwargs: P.kwargs) -> Callable[[], None]:
        def test() -> None:
            check(*args, **kwargs)

        return test

    return make
