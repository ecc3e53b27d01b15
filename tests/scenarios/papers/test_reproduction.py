"""Reproductions: rows, what they print and write, and the options of ``run`` that concern them."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scenarios import Context, Reproduced, Row, find_scenario
from scenarios.cli import CRASHED
from scenarios.errors import install_command
from scenarios.running.reproduction import Compared
from tests.scenarios.command import complaint, sottovoce
from tests.tiers import thinned

OWN = '''
"""Reproductions of a user's own, and a scenario that is none."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
from msgspec import Meta

from protocol.variants import RRIndependent
from scenarios.data.town import town
from scenarios.running.reproduction import Reproduced, Row, Runs
from scenarios.running.scenario import Context, Finished, Scenario


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    runs: Runs = 7
    plots: bool = True


class Ordinary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    runs: Annotated[int, Meta(ge=1, description="miles")] = 7


def one(parameters: Parameters, context: Context) -> Reproduced:
    outcome = None
    if context.by_messages:
        records = town(30, seed=context.seed)
        outcome = context.simulate(RRIndependent.with_keep(records.survey, 0.5), records)
    rows = (
        Row(settings={"p": 0.1, "attributes": ["a", "b"]}, measured=0.5, standard_error=0.01,
            printed=0.4, remark="a misprint [not markup]"),
        Row(settings={"p": 0.3, "attributes": ["a"]}, measured=0.41, standard_error=0.01,
            printed=0.4),
        Row(settings={"p": 0.5, "tv": 50}, measured=0.5, standard_error=0.01, printed=0.4),
        Row(settings={"p": 0.7, "tv": 50}, measured=0.5),
        Row(settings={"p": 0.9}, measured=0.5, standard_error=math.nan, printed=0.4),
    )
    for done in range(1, 5):
        context.progress(done, 4)
    return Reproduced(reproduction="own-one", runs=1 if outcome else parameters.runs, rows=rows,
                      notes=("what holds for all",), outcome=outcome)


def several(parameters: Parameters, context: Context) -> Reproduced:
    rows = (
        Row(settings={"n": 10}, measured={"mse": 0.25, "break_even": math.inf},
            standard_error={"mse": 0.125}, printed={"mse": 0.3}),
    )

    def plot(figure) -> None:
        if not parameters.plots:
            raise RuntimeError("no pencil")
        figure.subplots().set_xlabel("a plot of its own")

    return Reproduced(reproduction="own-several", runs=parameters.runs, rows=rows, plot=plot)


def never(parameters: Parameters, context: Context) -> Reproduced:
    raise RuntimeError("this ran")


def ordinary(parameters: Ordinary, context: Context) -> Finished:
    raise RuntimeError("this ran")


SCENARIOS = (
    Scenario(name="own-one", summary="One figure.", parameters=Parameters, run=one),
    Scenario(name="own-several", summary="Several.", parameters=Parameters, run=several),
    Scenario(name="own-never", summary="Fails.", parameters=Parameters, run=never),
    Scenario(name="ordinary", summary="None.", parameters=Ordinary, run=ordinary),
)
'''


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("own") / "own_reproductions.py"
    path.write_text(OWN, encoding="utf-8")
    return path


def row(**changed: Any) -> Row:
    return Row(**{"settings": {"p": 0.1}, "measured": 0.5, **changed})


# Rows


@pytest.mark.parametrize("name", ["measured", "standard_error", "printed", "tolerance", "remark"])
def test_no_setting_hides_a_rows_own_keys(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        row(settings={"p": 0.1, name: 3})


@pytest.mark.parametrize("what", ["standard_error", "printed", "tolerance"])
@pytest.mark.parametrize(
    ("measured", "other"), [({"a": 1.0}, {"b": 1.0}), (1.0, {"a": 1.0}), ({"a": 1.0}, 1.0)]
)
def test_what_is_compared_has_been_measured(what: str, measured: Any, other: Any) -> None:
    with pytest.raises(ValueError, match=what):
        row(measured=measured, **{what: other})


@pytest.mark.parametrize(
    ("measured", "error", "printed", "differs"),
    [
        (0.5, 0.1, 0.25, False),
        (0.5, 0.1, 0.1, True),
        (0.1, 0.1, 0.5, True),
        (0.5, 0.125, 0.125, False),  # three standard errors, and not more
        (0.5, 0.1, None, False),
        # Without an error it is the printed digits that decide.
        (0.12349, None, 0.123, False),
        (0.12351, None, 0.123, True),
        (2.934e-33, None, 2.93e-33, False),
        (2.936e-33, None, 2.93e-33, True),
        (0.12349, 1e-9, 0.123, False),
        (1e-16, None, 0.0, False),
        (0.001, None, 0.0, True),
        (2 / 3 + 1e-16, None, 2 / 3, False),
        (2 / 3 + 1e-6, None, 2 / 3, True),
        (50.1, None, 50.0, True),
        (math.inf, 0.1, 0.3, True),
        (math.nan, 0.1, 0.3, True),
        (math.inf, None, math.inf, False),
        # Nothing differs by an unknown error.
        (0.5, math.nan, 0.1, False),
        (math.inf, math.nan, 0.1, False),
    ],
)
def test_what_differs(
    measured: float, error: float | None, printed: float | None, differs: bool
) -> None:
    found = row(measured=measured, standard_error=error, printed=printed).figures()[0]
    assert found.differs is differs


def test_chance_is_the_tolerance_if_it_is_told() -> None:
    (near,) = row(standard_error=0.01, printed=0.4, tolerance=0.1).figures()
    (apart,) = row(standard_error=0.1, printed=0.4, tolerance=0.04).figures()
    assert (near.differs, apart.differs) == (False, True)


def test_ratio() -> None:
    assert Compared("", 0.3, None, 0.6).ratio == 0.5
    for printed in (None, 0.0):
        assert Compared("", 0.3, None, printed).ratio is None
    assert Compared("", math.inf, None, 0.6).ratio is None


def test_a_difference_without_a_remark_gets_one() -> None:
    apart = row(standard_error=0.1, printed=0.1)
    assert apart.words == "measured less printed is 0.4, by chance up to 0.3"
    assert row(standard_error=0.1, printed=0.1, remark="why").words == "why"
    assert row(standard_error=0.1, printed=0.45).words == ""
    several = row(measured={"a": 1.0, "b": 2.0, "c": math.inf}, printed={"b": 1.0, "c": 1.0})
    assert several.words == ("b: measured less printed is 1; c: measured is not finite, printed is")


def test_values_are_settings_and_five_keys() -> None:
    values = row(settings={"p": 0.1, "td": 1, "attributes": ("a", "b")}, printed=0.5).values()
    assert values == {
        "p": 0.1,
        "td": 1,
        "attributes": ["a", "b"],
        "measured": 0.5,
        "standard_error": None,
        "printed": 0.5,
        "tolerance": None,
        "remark": "",
    }


def test_values_of_several_figures_are_padded_with_null() -> None:
    measured = {"a": 1.0, "b": math.inf}
    values = row(measured=measured, printed={"a": 1.0}).values()
    assert values["measured"] == {"a": 1.0, "b": None}
    assert values["printed"] == {"a": 1.0, "b": None}
    assert values["standard_error"] is None
    assert values["remark"] == "not a finite number, so null: b"


def test_what_is_not_finite_is_null_and_the_remark_says_so() -> None:
    values = row(measured=math.inf, standard_error=math.nan, remark="why").values()
    assert (values["measured"], values["standard_error"]) == (None, None)
    assert values["remark"] == "why; not a finite number, so null: measured"


def test_numbers_of_numpy_are_json() -> None:
    settings = {"n": np.int64(3), "sizes": np.array([2, 3]), "epsilon": np.float64(math.inf)}
    values = row(settings=settings, measured=np.float64(0.5), printed=np.float64(0.25)).values()
    text = json.dumps(values, allow_nan=False)
    assert json.loads(text) == {
        **{"n": 3, "sizes": [2, 3], "epsilon": None},
        **{"measured": 0.5, "standard_error": None, "printed": 0.25},
        "tolerance": None,
        "remark": "measured less printed is 0.25",
    }


def test_result_of_an_empty_reproduction() -> None:
    assert Reproduced(reproduction="x", runs=3, rows=()).result() == {
        **{"reproduction": "x", "runs": 3, "rows": [], "notes": []}
    }


# The command line


def test_json_is_exactly_the_result(own: Path, tmp_path: Path) -> None:
    said = sottovoce("run", f"{own}:own-one", "--set", "runs=3", "--json", "--out", tmp_path)
    result = said.json
    assert said.err == ""
    assert list(result) == ["reproduction", "runs", "rows", "notes"]
    assert (result["reproduction"], result["runs"]) == ("own-one", 3)
    assert result["notes"] == ["what holds for all"]
    assert result["rows"][0] == {
        **{"p": 0.1, "attributes": ["a", "b"]},
        **{"measured": 0.5, "standard_error": 0.01, "printed": 0.4},
        "tolerance": None,
        "remark": "a misprint [not markup]",
    }
    assert result["rows"][2]["tv"] == 50
    assert result["rows"][2]["remark"].endswith("by chance up to 0.03")
    assert (result["rows"][3]["standard_error"], result["rows"][3]["printed"]) == (None, None)
    assert result["rows"][4]["standard_error"] is None
    assert result["rows"][4]["remark"] == ""
    assert said.out == (tmp_path / "result.json").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_by_messages_runs_once_and_leaves_a_transcript(own: Path, tmp_path: Path) -> None:
    arguments = ("run", f"{own}:own-one", "--by-messages", "--out", tmp_path)
    assert sottovoce(*arguments, "--transport", "local", "--json").json["runs"] == 1
    assert {path.name for path in tmp_path.iterdir()} == {
        "result.json",
        "transcript.checkpoint",
        "transcript.svt.zst",
    }
    assert sottovoce("verify", tmp_path / "transcript.svt.zst").code == 0


def test_reproductions_are_known_by_their_parameters(own: Path) -> None:
    assert find_scenario(f"{own}:own-one").reproduces
    assert not find_scenario(f"{own}:ordinary").reproduces
    assert not find_scenario("quickstart").reproduces


def test_list_groups_reproductions() -> None:
    out = sottovoce("list").out
    places = [out.index(word) for word in ("Scenarios", "quickstart", "Reproductions", "rr-table")]
    assert places == sorted(places)
    assert out.index("adult-joint") < out.index("Reproductions")


def test_progress_is_told(own: Path) -> None:
    told: list[tuple[int, int]] = []
    scenario = find_scenario(f"{own}:own-one")
    context = Context(progress=lambda done, total: told.append((done, total)))
    assert isinstance(scenario.run(scenario.configure({}), context), Reproduced)
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_terminal_shows_progress(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    said = sottovoce("run", f"{own}:own-one")
    assert said.code == 0
    assert "4 of 4" in said.err
    assert sottovoce("run", f"{own}:own-one", "--json").err == ""


# Pictures


@pytest.mark.parametrize(
    ("ending", "start"),
    thinned([("png", b"\x89PNG\r\n\x1a\n"), ("SVG", b"<?xml"), ("pdf", b"%PDF-")], 1),
)
def test_plot_writes_a_picture(own: Path, tmp_path: Path, ending: str, start: bytes) -> None:
    path = tmp_path / "new" / f"picture.{ending}"
    said = sottovoce("run", f"{own}:own-one", "--plot", path)
    assert said.code == 0, said.err
    assert path.read_bytes().startswith(start)
    assert [found.name for found in path.parent.iterdir()] == [path.name]
    assert str(path) in said.out.replace("\n", "")


def test_json_stays_alone_beside_a_plot(own: Path, tmp_path: Path) -> None:
    path = tmp_path / "picture.svg"
    assert sottovoce("run", f"{own}:own-several", "--json", "--plot", path).json["runs"] == 7
    assert "<!-- a plot of its own -->" in path.read_text()


@pytest.mark.parametrize("name", ["picture", "picture.jpg", "png"])
def test_an_unknown_ending_is_refused_before_the_run(own: Path, tmp_path: Path, name: str) -> None:
    said = sottovoce("run", f"{own}:own-never", "--plot", tmp_path / name)
    assert "ends in .png, .svg, .pdf" in complaint(said)
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_it_is_refused_before_the_run(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, module, None)
    said = sottovoce("run", f"{own}:own-never", "--plot", tmp_path / "picture.png")
    assert f"--plot needs matplotlib: {install_command('plots')}" in complaint(said)
    # Nobody else needs it.
    assert sottovoce("run", f"{own}:own-several", "--json").code == 0


def test_a_picture_is_there_whole_or_not_at_all(own: Path, tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(b"before")
    arguments = ("run", f"{own}:own-several", "--set", "plots=false", "--plot", path)
    said = sottovoce(*arguments)
    assert said.code == CRASHED
    assert "RuntimeError: no pencil" in said.err
    assert [(found.name, found.read_bytes()) for found in tmp_path.iterdir()] == [
        ("picture.png", b"before")
    ]
