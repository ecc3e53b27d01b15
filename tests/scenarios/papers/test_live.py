"""By messages and by law, every experiment measures the same: fifty runs of five cells each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from scenarios import Context, Reproduced, Row
from tests.scenarios.command import write_adult
from tests.scenarios.reproduced import reproduce

REPEATS = 50
LAW = 2000
"""How often a cell is drawn by law."""

QUESTIONS = 40
"""How many are put to a run by messages where runs differ by their question."""

CHANCE = 1e-3
"""How often all figures of an experiment together may be apart by chance."""

SMALL: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "rr-table-1": (
        {"parties": 3},
        [
            *({"p": 0.7, "td": 0.1, "tv": tv} for tv in (50, 100, 300)),
            *({"p": 0.5, "td": 0.1, "tv": tv} for tv in (50, 300)),
            {"p": 0.5, "td": 0.1, "tv": 100, "reading": "corrected"},
        ],
    ),
    "rr-table-2": ({"parties": 3}, [{"p": 0.7, "td": td, "tv": 300} for td in (0.1, 0.3)]),
    "rr-figure-2": ({}, [{}]),
    "rr-figure-3": ({}, [{"p": p} for p in (0.1, 0.3, 0.5, 0.7)]),
    "ind-joint-example": ({}, [{"of": f"{n} parties, repeated"} for n in (10, 100)]),
    "ind-joint-table-1": (
        {"parties": 3},
        [{"pair": pair} for pair in ("sex, income", "sex, race", "education, occupation")],
    ),
    "ind-joint-figures": (
        {"parties": 3},
        [
            *({"figure": 5, "v": v} for v in (0.0, 0.5, 1.0)),
            {"figure": 6, "epsilon": 2.0},
            {"figure": 7, "n": 100},
            {"figure": 8, "d": 2},
        ],
    ),
    "privkv-table-4": (
        {},
        [{"population": "Gaussian", "epsilon": e} for e in (0.1, 0.5, 1.0, 3.0, 5.0)],
    ),
    "privkv-table-5": (
        {},
        [
            {"population": population, "n": n}
            for population in ("Power-law", "Linear")
            for n in (1_000, 5_000, 10_000)
        ],
    ),
    "privkv-figures": (
        {},
        [{"figure": figure, "n": n} for figure in (11, 12, 13) for n in (1_000, 5_000)],
    ),
    "marginals-figure-6": (
        {"n": 2_000},
        [
            {"k": 2, "epsilon": 1.4, "method": method}
            for method in ("InpRR", "InpPS", "InpHT", "MargRR", "MargPS", "MargHT", "InpRR, oue")
        ],
    ),
    "marginals-figure-7": ({"n": 3_000}, [{"method": "InpHT"}, {"method": "MargPS"}]),
    "frequency-oracles": (
        {"n": 100},
        [
            {"epsilon": epsilon, "size": 8, "oracle": oracle}
            for epsilon in (0.5, 1.0, 2.0)
            for oracle in ("grr", "oue")
        ],
    ),
    "rrba-figure-5": (
        {},
        [
            {"network": "survey", "listed": listed}
            for listed in (0.0285, 0.116, 0.224, 0.356, 0.732)
        ],
    ),
    "rrba-figure-6": (
        {"reading": "reconstruction"},
        [{"p": p, "listed": 0.356} for p in (0.048, 0.095, 0.139, 0.221, 0.295)],
    ),
    "rrba-table-4": (
        {"n": 300, "block": 50, "v": 0.3, "draws": 99},
        [
            *({"ways": 2, "method": f"RRBA{how}"} for how in ("", ", noise-aware")),
            *({"ways": 3, "method": f"RRBA{how}"} for how in (", naive", " at the true epsilon")),
        ],
    ),
    **{
        name: (
            {"n": 400, "block": 50, "tables": 1},
            [
                {"network": network, "ways": ways, "method": "RRBA"}
                for network in ("survey", "alarm")
                for ways in many
            ],
        )
        # The same surveys, of which each says something else.
        for name, many in {
            "rrba-table-5": (2, 3, 4),
            "rrba-table-6": (3,),
            "rrba-figure-7": (2,),
        }.items()
    },
    "rrba-honest": (
        {"n": 400, "block": 50},
        [
            *({"network": "survey", "epsilon": e, "answers": "one"} for e in (1.0, 2.0, 4.0)),
            {"network": "survey", "epsilon": 4.0, "answers": "view"},
            *({"table": "A, T", "mix": mix, "epsilon": 2.0} for mix in (0.2, 1.0)),
        ],
    ),
}


def figures(done: Reproduced) -> dict[tuple[Any, ...], tuple[float, float]]:
    """What was measured with an error, by settings and figure."""

    def key(row: Row) -> tuple[Any, ...]:
        return tuple(sorted((name, row.shown(name)) for name in row.settings))

    return {
        (key(row), figure.name): (figure.measured, figure.standard_error)
        for row in done.rows
        for figure in row.figures()
        if figure.standard_error
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_what_is_measured_by_messages_is_in_the_law(name: str, tmp_path: Path) -> None:
    common, cells = SMALL[name]
    data = tmp_path if name.startswith(("rr-", "ind-joint-table")) else None
    write_adult(tmp_path)
    compared = []
    for cell in cells:
        # A median over questions needs some in every run.
        asked = {"runs": QUESTIONS} if name.startswith("rr-") else {}
        if name == "rr-figure-3":
            asked = {"runs": QUESTIONS // 10}
        many = {"runs": 200 if name in ("rr-figure-3", "frequency-oracles") else LAW}
        live = Context(by_messages=True, transport="local", data=data)
        found = figures(reproduce(name, live, repeats=REPEATS, **common, **cell, **asked))
        law = figures(reproduce(name, Context(data=data, seed=1), **common, **cell, **many))
        compared += [(cell, at, found[at], law[at]) for at in found if at in law]
    assert len(compared) >= min(5, len(cells))
    far = stats.t.isf(CHANCE / len(compared) / 2, REPEATS - 1)
    apart = [
        (cell, at, one, other)
        for cell, at, one, other in compared
        if abs(one[0] - other[0]) > far * (one[1] ** 2 + other[1] ** 2) ** 0.5
    ]
    assert not apart, apart
