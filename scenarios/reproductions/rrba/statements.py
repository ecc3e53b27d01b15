"""What RRBA says in formulas, on both sides: the coins, views, Equations 2, 4 and 7.

Randomized Response Block Aggregation (RRBA), sections 1.1, 3.2.1, 4 and 6.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from protocol.estimators.measures import jensen_shannon_distance
from protocol.estimators.projection import project_simplex
from protocol.variants.rrba.views import lower_bound, views_of
from scenarios.reproductions.driver import scenarios_of
from scenarios.reproductions.experiment import Asked, Experiment, Nothing, Sample, grid
from scenarios.running.reproduction import Picture


def _views(asked: Asked[Nothing]) -> list[Sample]:
    """Section 4: how many views there are, and how often they have each group."""
    d, k = asked.cell["attributes"], asked.cell["k"]
    views = views_of(d, k)
    groups = [group for view in views for group in view]
    often = [groups.count(group) for group in combinations(range(d), k)]
    return [
        Sample(
            exact={
                "views": float(len(views)),
                "fewest possible": float(lower_bound(d, k)),
                "groups of the largest view": float(max(map(len, views))),
                "times that a group occurs, at least": float(min(often)),
                "times that a group occurs, at most": float(max(often)),
            }
        )
    ]


def _unmixed(asked: Asked[Nothing]) -> list[Sample]:
    """Section 1.1 (two fair coins) and Equation 4: expected estimates, less the truth."""
    p, cells = asked.cell["p"], asked.cell["cells"]
    generator = asked.generator()
    truth, fakes, other = generator.dirichlet(np.ones(cells), size=3)
    reported = p * truth + (1 - p) * fakes
    yes = 0.5 * truth[0] + 0.25
    return [
        Sample(
            exact={
                "2 (q - 1/4), less the share": 2 * (yes - 0.25) - truth[0],
                "Equation 4 with the table of the reports": float(
                    np.abs((reported - (1 - p) * fakes) / p - truth).max()
                ),
                "with another table": float(np.abs((reported - (1 - p) * other) / p - truth).max()),
            }
        )
    ]


def _nearest(asked: Asked[Nothing]) -> list[Sample]:
    """Equation 7: what other tables near the projection have more of its objective."""
    gamma, cells = asked.cell["gamma"], asked.cell["cells"]
    generator, gains, moved = asked.generator(), [], []
    for _ in range(asked.runs):
        noisy = generator.dirichlet(np.ones(cells)) + generator.normal(0, 0.5 / cells, cells)
        best = project_simplex(noisy)
        steps = generator.dirichlet(np.ones(cells), size=200) - best
        tried = best + generator.random((200, 1)) ** 4 * steps
        apart = np.abs(np.vstack([best, tried]) - noisy)
        objective = gamma * apart.sum(axis=1) + (1 - gamma) * (apart**2).sum(axis=1)
        gains.append(objective[1:].min() - objective[0])
        moved.append(float(np.abs(best - noisy).max()))
    return [
        Sample(
            drawn={"better table found": np.array(gains) < -1e-12, "moved": np.array(moved)},
        )
    ]


def _divergence(asked: Asked[Nothing]) -> list[Sample]:
    """Equation 2, and its square root, which the tables print."""
    off = asked.cell["moved"]
    table = np.array([0.4, 0.3, 0.2, 0.1])
    other = table + off * np.array([1, -1, 0, 0])
    middle = (table + other) / 2
    divergence = sum(float((one * np.log(one / middle)).sum()) for one in (table, other)) / 2
    return [
        Sample(
            exact={
                "divergence, Equation 2 in nats": divergence,
                "its square root": divergence**0.5,
                "as measured": float(jensen_shannon_distance(table, other)),
            }
        )
    ]


EXPERIMENTS = (
    Experiment(
        paper="RRBA",
        item="Section 4, views",
        name="rrba-views",
        summary="RRBA, section 4: views of d attributes, and how often they have each group.",
        cells=(
            *grid(attributes=(5, 6, 20, 37), k=(2,)),
            *grid(attributes=(6, 7, 9), k=(3,)),
            *grid(attributes=(8,), k=(4,)),
        ),
        law=_views,
        notes=("exact: nothing is drawn",),
        picture=Picture(
            title="There are as few views as can be",
            x="attributes",
            by=("k",),
            figures=("views", "fewest possible"),
            axis="views",
            computed=("views", "fewest possible"),
            names={"attributes": "attributes d", "k": "attributes of a group"},
        ),
    ),
    Experiment(
        paper="RRBA",
        item="Section 1.1, Equation 4",
        name="rrba-equation-4",
        summary="RRBA, section 1.1 and Equation 4: the bias of estimates, exactly.",
        cells=grid(p=(0.1, 0.5, 0.9), cells=(2, 4, 16)),
        law=_unmixed,
        notes=("expected shares of reports, with a truth and tables that are drawn once a cell",),
        picture=Picture(
            title="An estimate needs the table that its reports were drawn with",
            x="p",
            by=("cells",),
            figures=("with another table",),
            axis="bias of an estimate",
            computed=("with another table",),
            names={"p": "keep probability p", "with another table": "bias with another table"},
        ),
    ),
    Experiment(
        paper="RRBA",
        item="Equation 2",
        name="rrba-equation-2",
        summary="RRBA, Equation 2: the Jensen-Shannon divergence and the distance that is printed.",
        cells=grid(moved=(0.001, 0.01, 0.1)),
        law=_divergence,
        notes=("exact: of (.4, .3, .2, .1) and the table with so much moved to its first cell",),
        picture=Picture(
            title="What the tables print is the root of the divergence",
            x="moved",
            figures=("divergence, Equation 2 in nats", "its square root"),
            axis="distance of two tables",
            computed=("divergence, Equation 2 in nats", "its square root"),
            names={"moved": "share moved"},
        ),
    ),
    Experiment(
        paper="RRBA",
        item="Equation 7",
        name="rrba-equation-7",
        summary="RRBA, Equation 7: no table is better by the elastic net than the projection.",
        cells=grid(gamma=(0.01, 0.5, 0.99), cells=(4, 16)),
        law=_nearest,
        runs=100,
        notes=("each run tries 200 tables of the same total beside the projection of a noisy one",),
        picture=Picture(
            title="No table is better by the elastic net than the projection",
            x="gamma",
            by=("cells",),
            figures=("better table found",),
            names={"better table found": "share of runs with a better table"},
        ),
    ),
)
SCENARIOS = scenarios_of(*EXPERIMENTS)
