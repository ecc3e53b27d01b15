"""Experiment of a paper: a value that the driver runs, by law or by messages.

A cell is one setting of an experiment, and ``measure`` draws what is measured there in many runs by
the law of reports, or in one run by messages. All else (repetition, randomness, standard errors,
comparison with what is printed, pictures, progress, engines) is the driver's.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.session.variant import V, Variant
from protocol.surveys.records import Records
from scenarios.running.outcomes import Outcome
from scenarios.running.reproduction import Picture, Row
from scenarios.running.scenario import Context

P = TypeVar("P", bound=msgspec.Struct)

Cell: TypeAlias = Mapping[str, Any]
"""A setting, such as ``{"p": 0.1, "tv": 50}``."""

Reading: TypeAlias = Literal["corrected", "printed", "reconstruction"]
"""Formulas that are computed: the corrected form, the paper's text, or a reconstruction that fits
its figures.
"""


class Nothing(msgspec.Struct, frozen=True, kw_only=True):
    """The own parameters of an experiment that has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Generic[P]):
    """Request to a cell; every process that is handed it draws the same.

    Args:
        cell: the setting.
        parameters: the experiment's own.
        runs: how many; by messages of one run, how many questions are put to it where runs
            differ by their question.
        reading: what is computed.
        seeds: decide the draws: those of the whole, the experiment, the cell and the piece of runs.
        context: how a run by messages is carried out, and where public data lies.
        outcomes: where those of runs by messages are kept, if they are.
    """

    cell: Cell
    parameters: P
    runs: int
    reading: Reading
    seeds: tuple[int, ...]
    context: Context = field(default_factory=Context)
    outcomes: list[Outcome[Variant]] | None = None

    @property
    def live(self) -> bool:
        """True if one run by messages is asked for, not many by law."""
        return self.context.by_messages

    @property
    def data(self) -> Path | str | None:
        """Folder of public data, or None."""
        return self.context.data

    @property
    def seed(self) -> int:
        """Seed of the whole: for data that all cells have in common."""
        return self.seeds[0]

    def simulate(self, variant: V, records: Records, parties: int | None = None) -> Outcome[V]:
        """A run by messages, the records spread over so many parties at most; by default all."""
        spread = None if parties is None else min(parties, len(records))
        outcome = self.context.simulate(variant, records, parties=spread)
        if self.outcomes is not None:
            self.outcomes.append(outcome)
        return outcome

    def generator(self) -> np.random.Generator:
        """A new generator of this cell and piece."""
        return np.random.default_rng(self.seeds)


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """Measurements in the runs of a cell; a cell may have several, each a row.

    Args:
        drawn: by figure, one value for each run, shape (runs,), or (runs, questions); truth values
            are shown as their share. A figure without a name is the only one.
        exact: figures without a standard error, such as closed forms.
        known: figures of a single run whose standard error is in closed form, and that; it is NaN
            where unknown. Where there are several runs by messages, they are drawn.
        printed: figures that the paper prints as a formula.
        settings: what distinguishes this row beside the cell.
        remark: what a reader has to know of this row.
    """

    drawn: dict[str, NDArray[Any]] = {}
    exact: dict[str, float] = {}
    known: dict[str, tuple[float, float]] = {}
    printed: dict[str, float] = {}
    settings: dict[str, Any] = {}
    remark: str = ""

    @classmethod
    def of(cls, figures: Mapping[str, Any], *, remark: str = "", **settings: Any) -> Sample:
        """Figures by name: arrays are drawn, numbers are exact."""
        drawn = {name: value for name, value in figures.items() if np.ndim(value)}
        exact = {name: float(value) for name, value in figures.items() if not np.ndim(value)}
        return cls(drawn=drawn, exact=exact, settings=settings, remark=remark)


Measured: TypeAlias = Mapping[str, Any] | Sample | Sequence[Sample]
"""Figures of a cell: by name, as arguments of ``Sample.of``, one sample or several."""


class Found(NamedTuple, Generic[P]):
    """Findings of an experiment, for its notes.

    Args:
        rows: all of them.
        asked: of the first cell.
    """

    rows: Sequence[Row]
    asked: Asked[P]

    def value(self, figure: str = "", **settings: Any) -> float:
        """A figure of the first row with these settings.

        Raises:
            KeyError: there is none.
        """
        for row in self.rows:
            if all(row.settings.get(name) == value for name, value in settings.items()):
                for one in row.figures():
                    if one.name == figure:
                        return one.measured
        raise KeyError(f"{figure!r} of {settings}")


@dataclass(frozen=True, kw_only=True)
class Experiment(Generic[P]):
    """A table, figure, example or section of a paper.

    Args:
        name: how it is called on the command line, and in the files of printed figures.
        summary: one sentence.
        cells: all settings. Every name in them is a parameter that chooses among them.
        measure: what is measured in the runs of a cell; a function at the top of a module. If a run
            by messages is asked for, the same of one run, arrays of shape (1,) or (1, questions).
        live: whether there are messages to send.
        live_cell: what is run by messages if no parameter chooses a cell; by default the first.
        runs: how many, by default.
        at_once: how many runs of a cell are one piece of work; all of them by default.
        parameters: the experiment's own: a frozen ``msgspec.Struct`` at the top of a module.
        readings: what there is to compute, in words; the first is the default.
        statistic: of the runs.
        notes: sentences about all rows.
        observed: sentences that say what was found, by law and in all cells.
        picture: what a picture shows of the rows.
    """

    name: str
    summary: str
    cells: Sequence[Cell]
    measure: Callable[[Asked[P]], Measured]
    live: bool = False
    live_cell: Cell = field(default_factory=dict)
    runs: int = 1
    at_once: int | None = None
    parameters: type[P] = Nothing  # type: ignore[assignment]
    readings: Mapping[Reading, str] = field(default_factory=lambda: {"corrected": ""})
    statistic: Literal["mean", "median"] = "mean"
    notes: Sequence[str] = ()
    observed: Callable[[Found[P]], Sequence[str]] | None = None
    picture: Picture = field(default_factory=Picture)

    @property
    def axes(self) -> Mapping[str, tuple[Any, ...]]:
        """The values of every name in the cells."""
        names = dict.fromkeys(name for cell in self.cells for name in cell)
        return {
            name: tuple(dict.fromkeys(cell[name] for cell in self.cells if name in cell))
            for name in names
        }

    def seeds(self, seed: int, cell: Cell) -> tuple[int, ...]:
        """Seeds of a cell's draws: its place, whatever else is run."""
        return seed, zlib.crc32(self.name.encode()), list(self.cells).index(cell)


def grid(**axes: Sequence[Any]) -> tuple[dict[str, Any], ...]:
    """Every combination of values, the last axis the fastest."""
    return tuple(dict(zip(axes, values, strict=True)) for values in product(*axes.values()))
