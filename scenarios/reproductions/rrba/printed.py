"""What RRBA prints in Tables 5 and 6, as far as its text is legible.

59.58 is in both tables, for different methods and networks, as in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Printed(NamedTuple):
    """A table of the paper.

    Args:
        p: the keep probability.
        epsilon: of the Laplace noise, and claimed of both.
        l2, js: by method and network, the figures for two, three and four ways, as far as legible.
    """

    p: float
    epsilon: float
    l2: Mapping[tuple[str, str], tuple[float | None, ...]]
    js: Mapping[tuple[str, str], tuple[float | None, ...]]


TABLE_5 = Printed(
    p=0.4,
    epsilon=0.35,
    l2={
        ("RRBA", "survey"): (68.27, 123.89, 140.10),
        ("RRBA", "alarm"): (90.36, None, None),
        ("Laplace", "survey"): (59.58, 307.588, 715.05),
        ("Laplace", "alarm"): (117.42, None, None),
    },
    js={
        ("RRBA", "survey"): (0.0104, 0.0142, 0.0577),
        ("RRBA", "alarm"): (0.0073, None, None),
        ("Laplace", "survey"): (0.0142, 0.1025, 0.1434),
        ("Laplace", "alarm"): (0.0153, None, None),
    },
)

TABLE_6 = Printed(
    p=0.5,
    epsilon=0.5,
    l2={
        ("RRBA", "survey"): (71.81, 100.70, 111.26),
        ("RRBA", "alarm"): (59.58, 102.22, 111.15),
        ("Laplace", "survey"): (109.60, 154.02, 372.63),
        ("Laplace", "alarm"): (61.69, 162.62, 427.98),
    },
    js={
        ("RRBA", "survey"): (0.0107, 0.0129, 0.0304),
        ("RRBA", "alarm"): (0.0074, 0.0156, 0.0380),
        ("Laplace", "survey"): (0.0142, 0.0582, 0.1417),
        ("Laplace", "alarm"): (0.0118, 0.0633, 0.1580),
    },
)
