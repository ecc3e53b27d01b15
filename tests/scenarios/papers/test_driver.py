"""The driver of experiments: cells, readings, pieces, runs by messages and printed figures."""

from __future__ import annotations

import dataclasses
import io
import math
from pathlib import Path

import msgspec
import numpy as np
import pytest
from rich.console import Console

from protocol.errors import UsageError
from protocol.variants import RRIndependent
from scenarios import Context, Reproduced, Row, town
from scenarios.papers.driver import experiment_scenarios
from scenarios.papers.experiment import Asked, Experiment, Found, Sample, grid
from scenarios.papers.printed import Printed
from scenarios.report.terminal.statement import statement_report
from scenarios.running.engines.processes import Processes
from scenarios.running.engines.sweep import Sweep
from scenarios.statement.reproductions import state_reproduction
from tests.scenarios.command import sottovoce


class Own(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of the experiment of these tests."""

    shift: float = 0.0


def measure(asked: Asked[Own]) -> list[Sample]:
    """Two rows for each cell, one figure of which is exact; by messages one small survey."""
    if asked.live:
        records = town(40, seed=3)
        variant = RRIndependent.with_keep(records.survey, asked.cell["p"])
        estimate = asked.simulate(variant, records, 2).estimate
        return [Sample.of({"value": estimate.table(records.survey.names[0]).values[:1]}, row="a")]
    drawn = asked.generator().normal(asked.cell["p"] + asked.parameters.shift, size=asked.runs)
    if asked.reading == "printed":
        drawn = 2 * drawn
    figures = {"value": drawn, "above": drawn > 0, "double": 2 * asked.cell["p"]}
    return [Sample.of(figures, row=row) for row in ("a", "b")]


LIVE_RUNS: list[tuple[int, ...]] = []
"""The runs by messages in this process, by what decides their draws."""


def remarked(asked: Asked[Own]) -> Sample:
    """A small survey whose runs have remarks and errors of their own."""
    LIVE_RUNS.append(asked.seeds)
    [sample] = measure(asked)
    return msgspec.structs.replace(
        sample,
        exact={"exact": math.nan, "run": asked.seeds[-1] * asked.parameters.shift},
        known={"known": (asked.seeds[-1], 0.5)},
        remark=f"run {asked.seeds[-1]}" if asked.cell["p"] > 0.5 else "a run",
    )


def observed(found: Found[Own]) -> list[str]:
    """What notes can be made of."""
    return [f"double {found.value('double', p=0.5):g}"]


EXPERIMENT = Experiment(
    name="none-table-0",
    summary="An experiment of a test.",
    cells=grid(**{"p": (0.1, 0.5, 0.9), "the town": ("near", "far")}),
    measure=measure,
    live=True,
    live_cell={"p": 0.5},
    runs=8,
    at_once=3,
    parameters=Own,
    readings={"corrected": "as it should be", "printed": "twice as much"},
    notes=("a note",),
    observed=observed,
)
[SCENARIO] = experiment_scenarios(EXPERIMENT)


def run(context: Context | None = None, **given: object) -> Reproduced:
    named = {name.replace("_", "-"): value for name, value in given.items()}
    done = SCENARIO.run(SCENARIO.configure(named), context or Context())
    assert isinstance(done, Reproduced)
    return done


def test_every_cell_is_measured_and_every_run_counts() -> None:
    told: list[tuple[int, int]] = []
    done = run(Context(progress=lambda done, total: told.append((done, total))))
    assert (done.runs, len(done.rows)) == (8, 12)
    assert told[-1] == (18, 18)  # six cells in pieces of three runs
    first = done.rows[0]
    assert first.settings == {"p": 0.1, "the town": "near", "row": "a"}
    figures = {figure.name: figure for figure in first.figures()}
    assert list(figures) == ["value", "above", "double"]
    assert figures["double"].standard_error is None
    assert figures["value"].standard_error == pytest.approx(1 / math.sqrt(8), rel=0.5)
    assert done.notes == ("reading = corrected: as it should be", "a note", "double 1")


def test_a_cell_has_the_same_figures_whatever_else_is_run() -> None:
    whole = {tuple(row.settings.values()): row.measured for row in run().rows}
    part = run(p="0.5", the_town="far")
    assert [row.settings["row"] for row in part.rows] == ["a", "b"]
    assert all(whole[tuple(row.settings.values())] == row.measured for row in part.rows)
    # What is said of all cells is not said of some.
    assert run(p=0.5).notes == run().notes[:-1]
    assert run(Context(seed=2)).rows[0].measured != run().rows[0].measured
    with pytest.raises(UsageError, match=r"'p' = 0.4: expected one of 0.1, 0.5, 0.9$"):
        run(p=0.4)


def test_of_the_cells_that_are_left_the_values_are_listed() -> None:
    cells = ({"figure": 1}, *grid(figure=(2,), v=(0.1, 0.2)), *grid(figure=(3,), v=(0.2, 0.3)))
    [scenario] = experiment_scenarios(dataclasses.replace(EXPERIMENT, cells=cells, observed=None))
    for given, said in (
        ({"figure": 3, "v": 0.1}, "parameter 'v' = 0.1: expected one of 0.2, 0.3 where figure = 3"),
        ({"figure": 1, "v": 0.1}, "parameter 'v' = 0.1: expected no 'v' where figure = 1"),
        ({"v": 0.4}, "parameter 'v' = 0.4: expected one of 0.1, 0.2, 0.3"),
    ):
        with pytest.raises(UsageError, match=f"^{said}$"):
            scenario.run(scenario.configure(given), Context())


@pytest.mark.slow
def test_the_figures_are_the_same_on_an_engine_and_from_kept_pieces(tmp_path: Path) -> None:
    plain = run(shift=1.0).result()
    context = Context(by_messages=True, transport="local")
    [scenario] = experiment_scenarios(dataclasses.replace(EXPERIMENT, measure=remarked))
    given = scenario.configure({"repeats": 3, "p": 0.9, "the-town": "far"})

    def by_messages(context: Context) -> object:
        found = scenario.run(given, context)
        assert isinstance(found, Reproduced)
        return found.result()

    told: list[tuple[int, int]] = []
    LIVE_RUNS.clear()
    here = by_messages(context)
    for _ in range(2):
        with Sweep(lambda: Processes(2), path=tmp_path / "pieces", about={}) as sweep:
            assert run(Context(sweep=sweep), shift=1.0).result() == plain
            told.clear()
            live = dataclasses.replace(
                context, sweep=sweep, progress=lambda done, total: told.append((done, total))
            )
            assert by_messages(live) == here
    assert told == [(1, 3), (1, 3), (2, 3), (3, 3)]
    # The first run by messages leaves the transcript, so it is never a piece.
    assert [seeds[-1] for seeds in LIVE_RUNS] == [0, 1, 2, 0, 0]


def test_a_reading_is_chosen() -> None:
    one, other = (run(reading=name, p=0.9).rows[0].measured for name in ("corrected", "printed"))
    assert isinstance(one, dict)
    assert isinstance(other, dict)
    assert other["value"] == pytest.approx(2 * one["value"])
    assert run(reading="printed").notes[0] == "reading = printed: twice as much"
    with pytest.raises(UsageError, match="'reading'"):
        run(reading="reconstruction")


def test_by_messages_a_cell_is_chosen_and_repeated(tmp_path: Path) -> None:
    context = Context(
        by_messages=True, transport="local", transcript=tmp_path / "transcript.svt.zst"
    )
    done = run(context)
    assert done.outcome is not None
    assert [row.settings["p"] for row in done.rows] == [0.5]
    assert math.isnan(done.rows[0].figures()[0].standard_error or 0.0)
    assert "one run by messages: no standard error follows from it" in done.notes
    again = run(Context(by_messages=True, transport="local"), repeats=3, p=0.9)
    assert again.runs == 3
    assert [row.settings["the town"] for row in again.rows] == ["near", "far"]
    assert all((row.figures()[0].standard_error or 0) > 0 for row in again.rows)
    assert (tmp_path / "transcript.svt.zst").exists()


def test_by_messages_a_cell_has_the_same_figures_whatever_else_is_run() -> None:
    context = Context(by_messages=True, transport="local")
    whole = run(context, repeats=2, p=0.9)
    part = run(context, repeats=2, p=0.9, the_town="far")
    assert part.rows == whole.rows[1:]
    assert whole.rows[0].measured != whole.rows[1].measured


FAILING = """
from pathlib import Path

from scenarios.papers.driver import experiment_scenarios
from scenarios.papers.experiment import Experiment
from tests.scenarios.papers.test_driver import EXPERIMENT, measure


def failing(asked):
    if asked.seeds[-1] == 2 and not Path(__file__).with_name("go").exists():
        raise KeyboardInterrupt
    with Path(__file__).with_name("runs").open("a") as file:
        file.write(f"{asked.seeds[-1]}\\n")
    return measure(asked)


SCENARIOS = experiment_scenarios(
    Experiment(
        name="failing",
        summary="Fails until it may go.",
        cells=EXPERIMENT.cells[:1],
        measure=failing,
        live=True,
        parameters=EXPERIMENT.parameters,
    )
)
"""


def test_runs_by_messages_that_were_ended_go_on(tmp_path: Path) -> None:
    own, out = tmp_path / "own.py", tmp_path / "out"
    own.write_text(FAILING, encoding="utf-8")
    command = ("run", own, "--by-messages", "--set", "repeats=4", "--out", out, "--transport")
    said = sottovoce(*command, "local")
    assert said.code == 130
    assert "the same command goes on from" in said.err
    (tmp_path / "go").touch()
    said = sottovoce(*command, "memory")
    assert (said.code, "is of another sweep, not with the same transport" in said.err) == (2, True)
    said = sottovoce(*command, "local", "--json")
    assert said.json["rows"][0]["standard_error"]["value"] > 0
    # The first run is done every time, and no other twice.
    assert (tmp_path / "runs").read_text(encoding="utf-8").split() == list("010023")


def test_an_engine_carries_runs_by_messages() -> None:
    said = sottovoce("run", "frequency-oracles", "--by-messages", "--jobs", 2, "--set", "n=100")
    assert said.code == 0
    assert said.err == "frequency-oracles is one piece of work, done in this process\n"


def test_what_runs_have_in_common_is_said_of_all_and_the_rest_of_the_first() -> None:
    context = Context(by_messages=True, transport="local")
    [scenario] = experiment_scenarios(dataclasses.replace(EXPERIMENT, measure=remarked))

    def row(**given: object) -> Row:
        found = scenario.run(scenario.configure({"the-town": "far", **given}), context)
        assert isinstance(found, Reproduced)
        return found.rows[0]

    assert (row(p=0.9).remark, row(p=0.5, repeats=3).remark) == ("run 0", "a run")
    several = row(p=0.9, repeats=3)
    assert several.remark == "first run: run 0"
    known = {figure.name: figure for figure in several.figures()}["known"]
    assert known.measured == 1.0
    assert known.standard_error == pytest.approx(1 / math.sqrt(3))
    with pytest.raises(TypeError, match=r"'run' of .* is not exact: runs differ in it"):
        row(p=0.9, repeats=2, shift=1.0)


def test_what_is_printed_is_found_by_its_settings() -> None:
    known = Printed(
        where="Table 0", runs=10, by=("p",), figures=("a", "b"), rows=((0.1, 1.5, math.nan),)
    )
    assert known.of({"p": 0.1, "more": 3}) == {"a": 1.5}
    assert known.of({"p": 0.5}) == {}


def test_figures_have_names_of_their_own() -> None:
    clash = Experiment(
        name="x",
        summary="",
        cells=grid(shift=(1, 2)),
        measure=measure,
        parameters=Own,
    )
    with pytest.raises(TypeError, match="two parameters of one name"):
        experiment_scenarios(clash)


def test_a_seed_is_the_cells_own() -> None:
    seeds = [EXPERIMENT.seeds(1, cell) for cell in EXPERIMENT.cells]
    assert len(set(seeds)) == 6
    asked = Asked(cell={}, parameters=Own(), runs=1, reading="printed", seeds=seeds[0])
    assert asked.generator().random() == asked.generator().random()
    assert np.random.default_rng(seeds[0]).random() != np.random.default_rng(seeds[1]).random()


def test_many_rows_are_shown_as_pivots_and_written_line_by_line() -> None:
    rows = tuple(
        Row(
            settings={"p": p, "tv": tv, "cell": f"of {tv}"},
            measured={"a": p * tv, "b": 0.5},
            standard_error={"a": 0.1},
            printed={"a": 3.0},
            tolerance={"a": 0.3},
        )
        for p in range(1, 6)
        for tv in range(1, 7)
    )
    done = Reproduced(reproduction="x", runs=3, rows=rows)
    console = Console(record=True, width=120, file=io.StringIO())
    for part in statement_report(state_reproduction(done, seconds=1.0)):
        console.print(part)
    lines = console.export_text().splitlines()
    # Two figures at six T_v, with p across, and what follows from T_v left out.
    assert len(lines) < 25
    assert any("p 1" in line for line in lines)
    (line,) = [one.split() for one in lines if one.split()[:2] == ["3", "a"]]
    assert line[2:6] == ["3.00", "(3)", "6.00*", "(3)"]
    text = done.csv().text.splitlines()
    assert text[0] == "p,tv,cell,figure,measured,standard_error,printed,tolerance,differs,remark"
    assert text[1] == "1,1,of 1,a,1.0,0.1,3.0,0.3,True,"
    assert len(text) == 1 + 60
