"""Options of commands that plan and hold surveys."""

from __future__ import annotations

from tests.scenarios.cli.options.changes import (
    Call,
    Case,
    code,
    err,
    files,
    links,
    names,
    out,
    passed,
    refusal,
    roster,
    validity,
    values,
)
from tests.scenarios.cli.options.spies import (
    aggregating,
    answering,
    closing,
    collecting,
    collecting_exposed,
    exposing,
    rehearsing,
    witnessing,
)

PLAN = (
    Call(
        "plan --from {numbers}",
        {
            "--from": ("{table}", out),
            "--out": ("plan.toml", files),
            "--title": ("Steps", out),
            "--n": ("100000", out),
            "--bins": ("3", out),
            "--most": ("4", out),
            "--rare": ("2", out),
            "--keep-case": (None, out),
            "--no-header": (None, out),
        },
    ),
    Call("plan --from {bare}", {"--header": (None, code)}),
    Call("plan --from {dictionary}", {"--language": ("pt-BR", out)}),
    Call(
        "plan --from {numbers} --variant secure-sum --parties 20",
        {
            "--variant": ("pair-counts", out),
            "--epsilon": ("1", out),
            "--delta": ("1e-8", out),
            "--parties": ("30", err),
        },
    ),
    Call("plan --from {numbers} --variant secure-sum", {"--noise": ("none", code)}),
)

PARTIES: dict[str, Case] = {"--count": ("2", names), "--names": ("{ids}", names)}
ENROL = (
    Call("keys {plan} --out keys", PARTIES),
    Call(
        "keys {plan} --out keys --party anna --party carl",
        {"--party": ("bert", names), "--out": ("there", names), "--days": ("5", validity)},
    ),
    Call("invite {plan} --out organiser", PARTIES),
    Call(
        "invite {plan} --out organiser --party anna --party carl",
        {"--party": ("bert", names), "--out": ("there", names)},
    ),
    Call("invite invited", {"--again": ("anna", code)}, copies=("invited",)),
    Call("join {invitation} --out me", {"--variant": ("{quiet}", code)}),
    Call("join {invitation} --out me --variant {quiet}", {"--out": ("you", names)}),
    Call("seal admitted", {"--variant": ("{quiet}", code)}, copies=("admitted",)),
    Call("seal admitted --variant {quiet}", {"--days": ("5", validity)}, copies=("admitted",)),
    Call(
        "seal admitted --variant {quiet}",
        # What it refuses: a survey to which nobody can come late.
        {"--spare": ("1", refusal)},
        copies=("admitted",),
    ),
    Call("accept anna {admission}", {"--variant": ("{quiet}", code)}, copies=("anna",)),
)

LINKED = "links {closing_plan} --url https://a.org/ --out linked"
LINK = (
    Call(
        f"{LINKED} --count 4",
        {
            "--count": ("5", roster),
            "--spare": ("2", roster),
            "--party": ("ward", roster),
            "--url": ("https://b.org/", links),
            "--out": ("there", names),
            "--organiser": ("{organiser_key}", names),
            "--no-qr": (None, links),
            "--days": ("60", validity),
        },
    ),
    Call(f"{LINKED} --names {{ids}}", {"--names": ("{more_ids}", roster)}),
    Call("links", {"--key": ("mine", code)}),
    Call("links {received}", {"--take": ("organiser", code)}, copies=("organiser",)),
    Call(
        "withdraw linked/aggregator p-1",
        {"--reason": ("lost", files), "--instead": ("p-5", files)},
        copies=("linked",),
    ),
    Call(
        "withdraw linked/aggregator p-1 --instead p-5",
        {"--although-answered": (None, files)},
        copies=("linked",),
    ),
)

ANSWER = (
    Call(
        "answer {keys}/anna --connect 127.0.0.1:7 --records {table}",
        {
            "--connect": ("there:8", passed),
            "--records": ("{others}", passed),
            "--plan": ("{plan}", passed),
            "--budget": ("3", passed),
            "--id": ("who", passed),
            "--same": (None, passed),
            "--different": ("01234567", passed),
            "--purse": ("{keys}/anna.purse", passed),
            "--repeat": ("{keys}/anna", passed),
            "--withstand": ("1", passed),
            "--honest": ("2", passed),
            "--waiting": ("4", passed),
        },
        spy=answering,
    ),
    Call(
        "answer {keys}/anna --connect 127.0.0.1:7 --records {table} --honest 2",
        {"--delta": ("1e-5", passed)},
        spy=answering,
    ),
    Call(
        "answer {quiet_keys}/party-1 --connect 127.0.0.1:7 --records {table}",
        {"--variant": ("{quiet}", code)},
        spy=answering,
    ),
)

PURSE = (
    Call(
        "purse --purse {keys}/anna.purse",
        {"--purse": ("{keys}/bert.purse", out), "--json": (None, out)},
    ),
    Call("purse --purse purse --merge {keys}/anna.purse", {"--merge": ("{keys}/bert", out)}),
    Call("purse --purse purse --merge {quiet_keys}/party-1", {"--variant": ("{quiet}", refusal)}),
)

HOLD = "aggregate fresh/aggregator --listen 127.0.0.1:7 --out result --json"
WITNESS = "http://127.0.0.1:1 {asked}"
HELD = {
    "--out": ("there", names),
    "--witness": (WITNESS, passed),
    "--log-json": ("log.json", names),
    "--trusted-address": ("192.0.2.0/24", passed),
    "--resume": (None, passed),
    "--without-missing": (None, passed),
    "--calibrate": ("{habits_margins}", values("estimate", "marginals")),
    "--level": ("0.5", values("estimate")),
    "--about": ("population", values("estimate")),
    "--project": ("clip", values("estimate")),
    "--plot": ("survey.svg", files),
    "--synthetic": ("people.csv", files),
    "--html": ("survey.html", files),
}
"""Of a survey that is held in whichever way."""
AGGREGATE = (
    Call(
        HOLD,
        {
            "--listen": ("there:8", passed),
            "--joining": ("7", passed),
            **HELD,
        },
        copies=("fresh",),
        spy=aggregating,
    ),
    Call(
        "backup {quiet_keys}/aggregator quiet.backup --out {quiet_keys}",
        {"--variant": ("{quiet}", code)},
    ),
    Call(
        "backup begun/aggregator begun.backup --out begun/nothing",
        {"--out": ("begun/result", code)},
        copies=("begun",),
    ),
    Call("restore {backup} again --out there", {"--out": ("here", names)}),
    Call(HOLD, {"--metrics": ("127.0.0.1:0", err)}, ("fresh",), exposing),
    Call(
        HOLD.removesuffix(" --json"),
        {"--json": (None, out), "--details": (None, out)},
        ("fresh",),
        aggregating,
    ),
    Call(
        f"{HOLD} --calibrate {{habits_margins}}",
        {"--calibrate-by": ("raking", values("estimate"))},
        ("fresh",),
        aggregating,
    ),
    Call(
        f"{HOLD} --witness {WITNESS} --witness {WITNESS}",
        {"--witnesses": ("1", passed)},
        ("fresh",),
        aggregating,
    ),
    Call(
        "aggregate fresh/aggregator --listen 127.0.0.1:7 --out held",
        {"--force": (None, code)},
        ("fresh", "held"),
        aggregating,
    ),
    Call(
        "aggregate {quiet_keys}/aggregator --listen 127.0.0.1:7 --out result",
        {"--variant": ("{quiet}", code)},
        spy=aggregating,
    ),
)

COLLECT_FROM = "collect linked/aggregator --listen 127.0.0.1:7 --out result --json"
COLLECT = (
    Call(
        COLLECT_FROM,
        {
            "--listen": ("127.0.0.2:8", passed),
            "--certificate": ("{certificate}", passed),
            "--behind-proxy": (None, passed),
            "--parties": ("there:9", passed),
            "--leave": (None, passed),
            **HELD,
        },
        copies=("linked",),
        spy=collecting,
    ),
    Call(COLLECT_FROM, {"--metrics": ("127.0.0.1:0", err)}, ("linked",), collecting_exposed),
    Call(
        COLLECT_FROM.removesuffix(" --json"),
        {"--json": (None, out), "--details": (None, out)},
        ("linked",),
        collecting,
    ),
    Call(
        f"{COLLECT_FROM} --certificate linked/aggregator/certificate.pem",
        {"--key": ("linked/aggregator/identity.key", code)},
        ("linked",),
        collecting,
    ),
    Call(
        f"{COLLECT_FROM} --calibrate {{habits_margins}}",
        {"--calibrate-by": ("raking", values("estimate"))},
        ("linked",),
        collecting,
    ),
    Call(
        f"{COLLECT_FROM} --witness {WITNESS} --witness {WITNESS}",
        {"--witnesses": ("1", passed)},
        ("linked",),
        collecting,
    ),
    Call(
        "collect linked/aggregator --listen 127.0.0.1:7 --out held",
        {"--force": (None, code)},
        ("linked", "held"),
        collecting,
    ),
    Call(
        "collect collected/aggregator --listen 127.0.0.1:7 --out result",
        {"--again": (None, code)},
        ("collected",),
        collecting,
    ),
    Call("close linked/aggregator", {"--early": (None, passed)}, ("linked",), closing),
    Call("status linked/aggregator", {"--json": (None, out)}, ("linked",)),
    Call("status {quiet_keys}/aggregator", {"--variant": ("{quiet}", code)}),
)

ABANDON = (
    Call(
        "abandon begun/aggregator --out begun/nothing",
        {"--out": ("begun/result", code), "--lost": (None, code)},
        ("begun",),
    ),
    Call(
        "abandon {quiet_keys}/aggregator --out {held}",
        {"--variant": ("{quiet}", refusal)},
    ),
)

REHEARSE = (
    # Calibrated intervals are about the population anyway.
    Call(
        "rehearse {plan} --records {table} --parties 3 --out rehearsed --about population",
        {"--calibrate": ("{margins}", passed)},
        spy=rehearsing,
    ),
    Call(
        "rehearse {plan} --records {table} --parties 3 --out rehearsed",
        {
            "--records": ("{others}", passed),
            "--parties": ("4", passed),
            "--out": ("there", passed),
            "--kill": ("party", passed),
            "--level": ("0.5", passed),
            "--about": ("population", passed),
            "--project": ("clip", passed),
            "--plot": ("survey.svg", passed),
            "--synthetic": ("people.csv", passed),
            "--html": ("survey.html", passed),
            "--json": (None, passed),
            "--details": (None, passed),
        },
        spy=rehearsing,
    ),
    Call(
        "rehearse {plan} --records {table} --parties 3 --out rehearsed --calibrate {margins}",
        {"--calibrate-by": ("raking", passed)},
        spy=rehearsing,
    ),
)

WITNESSING = (
    Call(
        "witness --key witness/key --state witness/state --trust {origin}",
        {
            "--key": ("stranger/key", refusal),
            "--state": ("stranger/state", refusal),
            "--trust": ("{other_origin}", passed),
            "--host": ("127.0.0.2", passed),
            "--port": ("7", passed),
            "--trusted-address": ("2001:db8::/32", passed),
        },
        ("witness", "stranger"),
        witnessing,
    ),
    Call("witness --key key --state state", {"--new-key": ("w.org/5", code)}, spy=witnessing),
)

CALLS = (
    *PLAN,
    *ENROL,
    *LINK,
    *ANSWER,
    *PURSE,
    *AGGREGATE,
    *COLLECT,
    *ABANDON,
    *REHEARSE,
    *WITNESSING,
)
