"""Report of a reproduction: measured figures next to a paper's printed ones.

A reproduction is a scenario whose parameters have ``runs: Runs`` and whose ``run`` returns
``Reproduced``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta

from protocol.session.variant import Variant
from scenarios.running.outcomes import Outcome
from scenarios.wording.formatting import as_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from scenarios.files.comma_separated import CsvText

Runs = Annotated[int, Meta(ge=1, le=1_000_000, description="how often the experiment is repeated")]
"""The parameter ``runs`` that makes a scenario a reproduction."""

Values: TypeAlias = float | Mapping[str, float]
"""One figure, or several by name."""

RESERVED = ("measured", "standard_error", "printed", "tolerance", "remark")
"""The keys of every row in JSON, which a setting must not have."""

TOLERANCE = 3
"""Default tolerance of measured and printed figures, in standard errors."""


class Compared(NamedTuple):
    """A measured figure, its standard error, and the paper's figure if it prints one.

    Args:
        name: name of the figure; empty if it is the only one of its row.
        tolerance: largest difference of measured and printed that chance explains.
    """

    name: str
    measured: float
    standard_error: float | None
    printed: float | None
    tolerance: float | None = None

    @property
    def differs(self) -> bool:
        """True if measured and printed are further apart than chance and rounding explain.

        Rounding is half a unit of the last printed digit, or round-off, and decides for figures
        without a standard error. Nothing differs if the tolerance is unknown.
        """
        if self.printed is None or self.measured == self.printed or self.undecided:
            return False
        chance = self.tolerance or 0.0
        return not abs(self.measured - self.printed) <= chance + _rounding(self.printed)

    @property
    def undecided(self) -> bool:
        """True if the difference that chance explains is unknown."""
        alike = self.printed is None or self.measured == self.printed
        return not alike and math.isnan(self.tolerance or 0.0)

    @property
    def unknown(self) -> bool:
        """True if the figure is an estimate with an unknown standard error."""
        return self.standard_error is not None and math.isnan(self.standard_error)

    @property
    def ratio(self) -> float | None:
        """Measured divided by printed, if that is a finite number."""
        if not self.printed:
            return None
        ratio = self.measured / self.printed
        return ratio if math.isfinite(ratio) else None


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One setting of an experiment: measured figures, and the paper's.

    Args:
        settings: settings of this row, such as ``p`` and ``attributes``.
        measured: a figure, or several by name; may be infinite.
        standard_error: standard error of ``measured``; None, or without a name, for an exact
            figure; NaN for an unknown error.
        printed: the paper's figures; None, or without a name, where it prints nothing.
        tolerance: largest difference of ``measured`` and ``printed`` that chance explains; None, or
            without a name, for three standard errors.
        remark: why measured and printed differ, or what else a reader has to know.

    Raises:
        ValueError: a setting has a reserved name, or ``standard_error``, ``printed`` or
            ``tolerance`` has a figure that ``measured`` lacks.
    """

    settings: Mapping[str, Any]
    measured: Values
    standard_error: Values | None = None
    printed: Values | None = None
    tolerance: Values | None = None
    remark: str = ""

    def __post_init__(self) -> None:
        for name in RESERVED:
            if name in self.settings:
                raise ValueError(f"a setting must not be called {name!r}, a key of every row")
        known = _by_name(self.measured)
        for what in ("standard_error", "printed", "tolerance"):
            values = getattr(self, what)
            unknown = [] if values is None else [n for n in _by_name(values) if n not in known]
            if unknown:
                raise ValueError(f"{what} has {unknown}, measured has {list(known)}")

    def figures(self) -> tuple[Compared, ...]:
        """Every figure of this row with its standard error and its printed value."""
        errors = {} if self.standard_error is None else _by_name(self.standard_error)
        printed = {} if self.printed is None else _by_name(self.printed)
        allowed = {} if self.tolerance is None else _by_name(self.tolerance)
        found = []
        for name, value in _by_name(self.measured).items():
            error = errors.get(name)
            usual = None if error is None else TOLERANCE * error
            found.append(Compared(name, value, error, printed.get(name), allowed.get(name, usual)))
        return tuple(found)

    def shown(self, name: str) -> str:
        """A setting as text; empty if this row does not have it."""
        value = self.settings.get(name)
        if isinstance(value, list | tuple):
            return ", ".join(map(str, value))
        if isinstance(value, float):
            return f"{value:g}"
        return "" if value is None else str(value)

    @property
    def words(self) -> str:
        """The remark, or else the differences of figures."""
        if self.remark:
            return self.remark
        return "; ".join(_difference(figure) for figure in self.figures() if figure.differs)

    def values(self) -> dict[str, Any]:
        """The row for JSON: its settings, then ``measured``, ``standard_error``, ``printed``,
        ``tolerance`` and ``remark``.

        Missing and infinite figures are null; ``remark`` names the infinite ones.
        """
        figures = self.figures()
        endless = [f.name or "measured" for f in figures if not math.isfinite(f.measured)]
        said = f"not a finite number, so null: {', '.join(endless)}" if endless else ""
        values: dict[str, Any] = as_json(
            {
                **self.settings,
                "measured": self.measured,
                "standard_error": self._pad(self.standard_error),
                "printed": self._pad(self.printed),
                "tolerance": self._pad(self.tolerance),
                "remark": "; ".join(part for part in (self.words, said) if part),
            }
        )
        return values

    def _pad(self, values: Values | None) -> Any:
        if isinstance(values, Mapping) and isinstance(self.measured, Mapping):
            return {name: values.get(name) for name in self.measured}
        return values


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """Picture of the rows, with its words; ``scenarios.report.pictures`` draws it.

    Rows with a setting ``figure`` have panels for each of its values, unless ``x`` is set.

    Args:
        title: the finding, as a sentence; by default how many figures agree with the printed ones.
        subject: the subject, used as title where nothing is printed.
        conditions: conditions of all figures, such as "n = 32,561; epsilon 2 per report".
        x: the setting along the horizontal axis, of numbers; by default that with most values.
        by: the other settings that vary: the first of several that a row has tells panels apart,
            the rest colours; by default all of them.
        figures: the names of those that are drawn, in their order; by default all.
        axis: name and unit of all figures if they share panels, told apart by colour; by default
            each figure has panels of its own.
        names: words for settings, figures and values, with units, by their names in the rows:
            ``{"p": "keep probability p", "": "relative error"}``; ``"figure 2"`` replaces ``axis``
            in the panels of that figure.
        computed: the figures that are closed forms: lines without points, never called measured.
    """

    title: str = ""
    subject: str = ""
    conditions: str = ""
    x: str | None = None
    by: tuple[str, ...] | None = None
    figures: tuple[str, ...] = ()
    axis: str = ""
    names: Mapping[str, str] = {}
    computed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduced:
    """A reproduction, done.

    Args:
        reproduction: its name.
        runs: the number of repetitions.
        rows: measured beside printed.
        notes: sentences about all rows.
        picture: choice of figures for a picture, and words for them.
        plot: draws into an empty figure instead, what is not in rows.
        outcome: outcome of a run by messages.
    """

    reproduction: str
    runs: int
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    picture: Picture = field(default_factory=Picture)
    plot: Callable[[Figure], None] | None = None
    outcome: Outcome[Variant] | None = None

    def result(self) -> dict[str, Any]:
        """Content of ``result.json`` and of ``--json``."""
        return {
            "reproduction": self.reproduction,
            "runs": self.runs,
            "rows": [row.values() for row in self.rows],
            "notes": list(self.notes),
        }

    def csv(self) -> CsvText:
        """Every figure on a line with its settings."""
        from scenarios.files.comma_separated import csv_text

        names = dict.fromkeys(name for row in self.rows for name in row.settings)
        columns = ("figure", "measured", "standard_error", "printed", "tolerance", "differs")
        lines = (
            (
                *(row.shown(name) for name in names),
                figure.name,
                figure.measured,
                figure.standard_error,
                figure.printed,
                None if figure.printed is None else figure.tolerance,
                None if figure.printed is None else figure.differs,
                row.remark,
            )
            for row in self.rows
            for figure in row.figures()
        )

        return csv_text((*names, *columns, "remark"), lines)


def _by_name(values: Values) -> Mapping[str, float]:
    named = values if isinstance(values, Mapping) else {"": values}
    return {name: float(value) for name, value in named.items()}


def _rounding(printed: float) -> float:
    """Largest rounding error of a printed number; a whole number counts as exact."""
    round_off = 1e-9 * abs(printed) or 1e-12
    exponent = Decimal(repr(printed)).as_tuple().exponent
    if printed.is_integer() or not isinstance(exponent, int):
        return round_off
    return max(round_off, 0.5 * 10.0**exponent)


def _difference(figure: Compared) -> str:
    name = f"{figure.name}: " if figure.name else ""
    if figure.printed is None or not math.isfinite(figure.measured):
        return f"{name}measured is not finite, printed is"
    apart = figure.measured - figure.printed
    if not figure.standard_error:
        return f"{name}measured less printed is {apart:.3g}"
    return f"{name}measured less printed is {apart:.3g}, by chance up to {figure.tolerance:.2g}"
