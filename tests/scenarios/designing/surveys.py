"""Surveys of given sizes, and people whose answers depend on each other."""

from __future__ import annotations

from math import prod

import numpy as np

from protocol import Attribute, Records, Survey


def survey_of(*sizes: int) -> Survey:
    """Attributes q0, q1, ... of so many categories."""
    return Survey(
        "sizes",
        tuple(
            Attribute(name=f"q{place}", categories=tuple(f"c{code}" for code in range(size)))
            for place, size in enumerate(sizes)
        ),
    )


def answers(n: int, *sizes: int, seed: int = 7) -> Records:
    """Of n people, far from uniform and far from independent."""
    generator = np.random.default_rng(seed)
    shares = generator.dirichlet(np.full(prod(sizes), 0.5))
    drawn = generator.choice(len(shares), size=n, p=shares)
    codes = np.stack(np.unravel_index(drawn, sizes), axis=1)
    survey = survey_of(*sizes)
    return Records(survey, codes.astype(survey.dtype))
