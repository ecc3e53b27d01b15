"""Draws the figures of RR-Ind-Joint: tables as heat maps or bars, errors as curves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scenarios.report.plots import WHISKERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

# Colours that people who see few of them can tell apart (Okabe and Ito).
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#666666"
_SKY = "#56B4E9"

_COLUMNS = 4
_PANEL = 3.6
"""Inches per panel."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Surface:
    """The shares of a table: a heat map, or grouped bars if one attribute has two categories."""

    title: str
    names: tuple[str, str]
    categories: tuple[tuple[str, ...], tuple[str, ...]]
    values: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curves:
    """Both estimators' mean absolute errors along one parameter.

    The errors are standard errors, 0 where nothing is sampled. ``break_even`` is where both have
    the same squared error; it is drawn if it is finite.
    """

    title: str
    label: str
    logarithmic: bool
    places: tuple[float, ...]
    rr_ind: tuple[float, ...]
    rr_ind_joint: tuple[float, ...]
    rr_ind_errors: tuple[float, ...]
    rr_ind_joint_errors: tuple[float, ...]
    break_even: float = math.inf


Picture: TypeAlias = Surface | Curves


def plot_figures(pictures: Sequence[Picture]) -> Callable[[Figure], None]:
    """What draws these pictures, a panel each."""

    def plot(figure: Figure) -> None:
        columns = min(_COLUMNS, len(pictures))
        rows = math.ceil(len(pictures) / columns)
        figure.set_size_inches(max(6.0, _PANEL * columns), max(4.5, _PANEL * rows))
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, picture in zip(panels, pictures, strict=False):
            axes.set_title(picture.title, fontsize=9)
            if isinstance(picture, Curves):
                _draw_curves(axes, picture)
            elif len(picture.categories[0]) == 2:
                _draw_bars(axes, picture)
            else:
                mesh = _draw_map(axes, picture)
                figure.colorbar(mesh, ax=axes, label="share of respondents")
        for axes in panels[len(pictures) :]:
            axes.set_visible(False)
        figure.tight_layout()

    return plot


def _draw_map(axes: Axes, picture: Surface) -> AxesImage:
    largest = float(np.abs(picture.values).max())
    # Signed: an estimate may be below 0.
    mesh = axes.imshow(picture.values, cmap="PuOr", vmin=-largest, vmax=largest)
    first, second = picture.categories
    axes.set_yticks(range(len(first)), first, fontsize=7)
    axes.set_xticks(range(len(second)), second, fontsize=7)
    axes.set_ylabel(picture.names[0])
    axes.set_xlabel(picture.names[1])
    return mesh


def _draw_bars(axes: Axes, picture: Surface) -> None:
    places = np.arange(len(picture.categories[1]))
    for number, (category, color) in enumerate(
        zip(picture.categories[0], (BLUE, _SKY), strict=True)
    ):
        heights = picture.values[number]
        axes.bar(places + 0.4 * number - 0.2, heights, 0.4, label=category, color=color)
    axes.set_xticks(places, picture.categories[1], fontsize=7)
    axes.set_xlabel(
        f"{picture.names[1]} (years)" if picture.names[1] == "age" else picture.names[1]
    )
    axes.set_ylabel("share of respondents")
    axes.legend(title=picture.names[0], fontsize=7)


def _draw_curves(axes: Axes, picture: Curves) -> None:
    for values, errors, label, color, style in (
        (picture.rr_ind, picture.rr_ind_errors, "RR-Ind", BLUE, "o-"),
        (picture.rr_ind_joint, picture.rr_ind_joint_errors, "RR-Ind-Joint", ORANGE, "s--"),
    ):
        axes.errorbar(
            picture.places, values, yerr=errors, fmt=style, markersize=4, color=color, label=label
        )
    if math.isfinite(picture.break_even):
        axes.axvline(picture.break_even, color=GREY, linestyle=":", label="equal squared error")
    if picture.logarithmic:
        axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(picture.label)
    axes.set_ylabel("mean absolute error per cell")
    axes.legend(fontsize=7, title=WHISKERS, title_fontsize=7)
