"""Options of commands that compute or simulate."""

from __future__ import annotations

from tests.scenarios.cli.options.changes import Call, Case, code, err, files, out, passed, values
from tests.scenarios.cli.options.spies import attacks, checks, engines, only, simulations
from tests.scenarios.command import ROOT

ENGINE: dict[str, Case] = {
    "--engine": ("ray", passed),
    "--jobs": ("3", passed),
    "--address": ("head:1", passed),
}

TRIAL = "run {plan} --records {table} --parties 5 --seed 7 --json"
EXAMPLE = "run ind-joint-example --set runs=2"
RUN = (
    Call(
        TRIAL,
        {
            "--set": ("drop=0.5", values("estimate")),
            "--config": ("{drop}", values("estimate")),
            "--parties": ("4", values("traffic")),
            "--records": ("{others}", values("truth")),
            "--seed": ("8", values("transcript")),
            "--out": ("trial", files),
            "--calibrate": ("{margins}", values("estimate", "marginals")),
            "--level": ("0.5", values("estimate")),
            "--about": ("population", values("estimate")),
            "--plot": ("trial.svg", files),
            "--synthetic": ("trial.csv", files),
            "--html": ("trial.html", files),
            "--watch": (None, err),
        },
    ),
    Call(TRIAL.removesuffix(" --json"), {"--json": (None, out), "--details": (None, out)}),
    Call(TRIAL, {"--transport": ("local", passed), "--workers": ("2", passed)}, spy=simulations),
    Call(f"{TRIAL} --calibrate {{margins}}", {"--calibrate-by": ("raking", values("estimate"))}),
    Call(f"{TRIAL} --out held", {"--force": (None, code)}, copies=("held",)),
    Call(
        "run adult-independent --data {adult} --json",
        {"--data": ("{fewer}", values("truth"))},
        dear=True,
    ),
    Call(f"{EXAMPLE} --json", {"--by-messages": (None, out), "--csv": ("figures.csv", files)}),
    Call(EXAMPLE, ENGINE, spy=engines),
)

TABULATE = (
    Call(
        "tabulate quickstart --n 50 --seed 7 --json",
        {
            "--n": ("60", values("digest")),
            "--cohort": ("10", values("digest")),
            "--set": ("p=0.9", values("digest")),
            "--config": ("{keep}", values("digest")),
            "--seed": ("8", values("digest")),
            "--out": ("town", files),
            "--calibrate": ("{town_margins}", values("estimate", "marginals")),
            "--level": ("0.5", values("estimate")),
            "--about": ("respondents", values("estimate")),
            **ENGINE,
        },
        spy=engines,
    ),
    Call("tabulate quickstart --n 50", {"--json": (None, out), "--details": (None, out)}),
    Call(
        "tabulate quickstart --n 50 --json --calibrate {town_margins}",
        {"--calibrate-by": ("raking", values("estimate"))},
    ),
    Call(
        "tabulate {plan} --n 50 --records {table} --seed 7 --json",
        {"--records": ("{others}", values("digest"))},
    ),
    Call(
        "tabulate adult-independent --n 50 --data {adult} --json",
        {"--data": ("{fewer}", values("digest"))},
    ),
    Call("tabulate quickstart --n 50 --out held", {"--force": (None, code)}, copies=("held",)),
)

COMPARE = (
    Call(
        "compare {plan} --records {table} --variant rr-independent --epsilon 1 --runs 2 --seed 7 "
        "--json",
        {
            "--records": ("{others}", values("rows")),
            "--variant": ("rr-joint", values("rows")),
            "--epsilon": ("2", values("rows")),
            "--target": ("pairs", values("rows")),
            "--runs": ("3", values("rows")),
            "--dropout": ("0.5", values("rows")),
            "--project": ("clip", values("rows")),
            "--seed": ("8", values("rows")),
            "--out": ("compared", files),
            "--plot": ("compared.svg", files),
            **ENGINE,
        },
        spy=engines,
    ),
    Call(
        "compare {plan} --records {table} --variant rr-independent --epsilon 1 --runs 2 --seed 7 "
        "--dropout 0.5 --json",
        {"--parties": ("3", values("rows"))},
    ),
    Call(
        "compare {plan} --records {table} --variant secure-sum:coins --epsilon 1 --runs 2 --seed 7 "
        "--json",
        {"--delta": ("0.1", values("rows"))},
    ),
    Call(
        "compare {plan} --records {table} --variant rr-independent --epsilon 1 --runs 2 --seed 7",
        {"--json": (None, out)},
    ),
)

DESIGN = (
    Call(
        "design {plan} --n 30 --epsilon 1 --json",
        {
            "--n": ("60", values("designs")),
            "--epsilon": ("2", values("designs")),
            "--target": ("pairs", values("designs")),
            "--parties": ("10", values("designs")),
            "--dropout": ("0.5", values("designs")),
            "--assume": ("worst", values("designs")),
            "--records": ("{others}", values("designs")),
            "--about": ("population", values("designs")),
            "--delta": ("0.1", values("designs")),
            "--variant": ("{own}:RollCall", values("designs")),
            "--out": ("ways.csv", files),
            "--plot": ("ways.svg", files),
        },
        spy=only("rr-independent"),
    ),
    Call(
        "design {plan} --n 30 --epsilon 1",
        {"--all": (None, out), "--json": (None, out)},
        spy=only("spl"),
    ),
    Call(
        "design {plan} --n 30 --epsilon 1 --json",
        {"--runs": ("3", values("designs"))},
        spy=only("rrba"),
    ),
    Call("design {taxes} --n 100", {"--error": ("0.1", code)}, spy=only("rr-independent")),
    Call(
        "design {taxes} --n 100 --error 0.1 --json",
        {"--level": ("0.5", values("needed"))},
        spy=only("rr-independent"),
    ),
)

TEST = (
    Call(
        "test rr-independent",
        {
            "--schedules": ("3", passed),
            "--parties": ("2", passed),
            "--rare": ("Report", passed),
            "--set": ("p=0.9", passed),
            "--survey": ("{taxes}", passed),
            "--seed": ("8", passed),
            "--out": ("tested", files),
            "--json": (None, out),
            **ENGINE,
        },
        spy=checks,
    ),
)

SMALL = "attack rr-independent --survey {taxes} --trials 10 --runs 2 --json"
SHUFFLED = ROOT / "docs/examples/shuffler.py:Shuffled"
ACTIVE = "attack rr-independent --active --survey {taxes} --scripts 2 --trials 10 --json"
ATTACK = (
    Call(
        SMALL,
        {
            "--trials": ("20", values("probes")),
            "--runs": ("3", passed),
            "--copies": ("3", values("probes")),
            "--observer": ("party-2", values("probes")),
            "--target": ("2", values("probes")),
            "--set": ("p=0.9", values("probes")),
            "--delta": ("0.1", passed),
            "--alpha": ("0.1", values("probes")),
            "--seed": ("8", values("probes")),
            "--out": ("attacked", files),
            **ENGINE,
        },
        spy=attacks,
    ),
    Call(
        "attack rr-independent --trials 10 --runs 2 --json",
        {"--survey": ("{taxes}", out)},
        dear=True,
    ),
    Call(
        "attack rr-independent --survey {taxes} --scripts 2 --trials 10", {"--active": (None, code)}
    ),
    Call(ACTIVE, {"--scripts": ("3", passed), "--target": ("2", passed)}, spy=attacks),
    Call(
        f"attack {SHUFFLED} --active --scripts 2 --trials 10 --json",
        {"--hostile": ("shuffler", passed)},
        spy=attacks,
        dear=True,
    ),
    Call(
        "attack {leaking} --active --replay {scripts}/script-1.json",
        {"--replay": ("{scripts}/script-2.json", out)},
        dear=True,
    ),
    Call(
        "attack {clients}:noisy --inputs 'a,b' --claims 9 --trials 2000 --json",
        {"--inputs": ("a,c", out), "--claims": ("0.001", code), "--delta": ("0.1", out)},
    ),
    Call(SMALL.removesuffix(" --json"), {"--json": (None, out)}),
)

COMPUTED = (
    Call(
        "compose --mechanism k=4,epsilon=1 --delta 1e-6 --json",
        {
            "--mechanism": ("k=3,p=0.5", values("pure")),
            "--times": ("3", values("pure")),
            "--delta": ("0.01", values("exact")),
        },
    ),
    Call("compose --mechanism k=4,epsilon=1 --delta 1e-6", {"--json": (None, out)}),
    Call(
        "shuffle --n 10000 --epsilon 1 --delta 1e-6 --json",
        {
            "--n": ("20000", values("any_randomizer")),
            "--epsilon": ("2", values("any_randomizer")),
            "--delta": ("0.01", values("any_randomizer")),
            "--k": ("4", values("krr")),
        },
    ),
    Call("shuffle --n 10000 --epsilon 1 --delta 1e-6", {"--json": (None, out)}),
    Call("list", {"--parameters": (None, out)}),
)

CALLS = (*RUN, *TABULATE, *COMPARE, *DESIGN, *TEST, *ATTACK, *COMPUTED)
