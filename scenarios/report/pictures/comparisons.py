"""A comparison of variants as a picture."""

from __future__ import annotations

from scenarios.designing.comparing.comparison import Comparison
from scenarios.report.pictures.curves import Curve, Point, leader, plot_curves
from scenarios.report.pictures.drawing import Plot
from scenarios.wording.formatting import count


def plot_comparison(done: Comparison) -> Plot:
    """Measured errors with their Monte Carlo errors as points, predicted ones as lines."""
    names = dict.fromkeys(each.variant for each in done.measured if each.raw is not None)
    curves = []
    for name in names:
        of_it = [each for each in done.measured if each.variant == name]
        curves.append(
            Curve(
                name,
                [(each.epsilon, each.predicted) for each in of_it if each.predicted is not None],
                [Point(each.epsilon, *each.raw) for each in of_it if each.raw is not None],
            )
        )
    return plot_curves(
        curves,
        title=f"{done.title}: {leader(curves)}",
        label="root mean squared error of a share",
        notes=(done.target.says, count(done.respondents, "respondent")),
    )
