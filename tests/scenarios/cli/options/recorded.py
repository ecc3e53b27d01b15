"""Options of commands that read a record, a receipt, a plan or a member's folder."""

from __future__ import annotations

from tests.scenarios.cli.options.changes import (
    Call,
    Case,
    code,
    files,
    out,
    passed,
    refusal,
    values,
)
from tests.scenarios.cli.options.spies import budgets, pages

BUDGET: dict[str, Case] = {"--seconds": ("77", passed), "--memory": ("777", passed)}
ZEROS = "00" * 32

AUDIT = (
    Call(
        "audit {record} --json",
        {
            "--observer": ("party-1", values("privacy")),
            "--trail": ("party-1", out),
            "--worst": ("1", out),
            "--records": ("{table}", out),
            "--delta": ("0.01", values("privacy", "at_delta")),
            "--pld": (None, out),
            "--spot": ("2", out),
            "--html": ("audit.html", files),
            "--calibrate": ("{margins}", values("result", "marginals")),
            "--level": ("0.5", values("result", "intervals")),
            "--about": ("population", values("result", "intervals")),
            "--digest": (ZEROS, code),
            "--checkpoint": ("{contradiction}", code),
            **BUDGET,
        },
        spy=budgets,
    ),
    Call("audit {record}", {"--json": (None, out), "--details": (None, out)}),
    Call("audit {own_record}", {"--variant": ("{own}:RollCall", code)}),
    Call(
        "audit {record} --json --observer party-2",
        {"--tap": ("party-1:aggregator", out), "--key": ("party-1", out)},
    ),
    Call("audit {record} --spot 1", {"--spot-words": ("dice", out)}),
    Call("audit {record} --html audit.html", {"--replay": (None, files)}),
    Call(
        "audit {held}/transcript.svt.zst --records anna={held}/anna.csv",
        {"--member": ("{keys}/anna", code)},
    ),
    Call("audit {loud_record} --json --records {loud}", {"--plan": ("{forgiving}", code)}),
    Call(
        "audit {record} --json --calibrate {margins}",
        {"--calibrate-by": ("raking", values("result", "marginals"))},
    ),
    Call("audit {record} --checkpoint {checkpoint}", {"--witness-key": ("{silent}", code)}),
    Call(
        "audit {record} --checkpoint {cosigned} --witness-key {asked} --witness-key {silent}",
        {"--witnesses": ("1", code)},
    ),
)

VERIFY = (
    Call(
        "verify {record}",
        {
            "--digest": (ZEROS, code),
            "--checkpoint": ("{contradiction}", code),
            "--checkpoints": ("every", files),
            "--json": (None, out),
            **BUDGET,
        },
        spy=budgets,
    ),
    Call("verify {record} --checkpoint {contradiction}", {"--evidence": ("evidence.json", files)}),
    Call("verify {record} --checkpoint {checkpoint}", {"--witness-key": ("{silent}", code)}),
    Call(
        "verify {record} --checkpoint {cosigned} --witness-key {asked} --witness-key {silent}",
        {"--witnesses": ("1", code)},
    ),
)

ESTIMATE = (
    Call(
        "estimate {record} --json",
        {
            "--table": ("smokes,age", values("rows")),
            "--where": ("smokes=yes", values("rows")),
            "--independent": ("smokes,age", values("rows")),
            "--level": ("0.5", values("rows")),
            "--about": ("population", values("rows")),
            "--project": ("clip", values("rows")),
            "--out": ("tables.csv", files),
            "--synthetic": ("people.csv", files),
            **BUDGET,
        },
        spy=budgets,
    ),
    # Calibrated intervals are about the population anyway.
    Call(
        "estimate {record} --json --about population",
        {"--calibrate": ("{margins}", values("rows"))},
    ),
    Call("estimate {record}", {"--json": (None, out), "--details": (None, out)}),
    Call("estimate {bit_record} --json --table a,b", {"--consistent": (None, values("rows"))}),
    Call(
        "estimate {record} --json --calibrate {margins}",
        {"--calibrate-by": ("raking", values("rows"))},
    ),
    Call("estimate {own_record}", {"--variant": ("{own}:RollCall", code)}),
)

EXPLAIN = (
    Call(
        "explain {record} party-1",
        {
            "--respondent": ("2", out),
            "--records": ("{table}", files),
            "--out": ("drawn.svg", files),
            "--level": ("0.5", files),
            "--about": ("population", files),
            **BUDGET,
        },
        spy=budgets,
    ),
    Call("explain {own_record} party-01", {"--variant": ("{own}:RollCall", code)}),
)

READ = (
    Call("show {record}", BUDGET, spy=budgets),
    Call(
        "query {record} 'SELECT member FROM roster'", {"--json": (None, out), **BUDGET}, spy=budgets
    ),
    Call("query {own_record} 'SELECT * FROM ledger'", {"--variant": ("{own}:RollCall", code)}),
    Call("export {record} --to here", {"--to": ("there", files), **BUDGET}, spy=budgets),
    Call("export {own_record} --to here", {"--variant": ("{own}:RollCall", code)}),
)

PROVE = (
    Call(
        "prove {record} party-1",
        {
            "--checkpoint": ("{middle}", out),
            "--out": ("mine.receipt", files),
            "--json": (None, out),
            **BUDGET,
        },
        spy=budgets,
    ),
    Call("prove {record}", {"--since": ("{early}", code)}),
    Call("prove {own_record} party-01", {"--variant": ("{own}:RollCall", code)}),
)

CHECK = (
    Call(
        "check {receipt} --checkpoint {held}/transcript.checkpoint",
        {
            "--checkpoint": ("{checkpoint}", code),
            "--report": ("{receipt}", code),
            "--member": ("{keys}/bert", code),
            "--variant": ("{clients}:truthful", refusal),
            "--json": (None, out),
            **BUDGET,
        },
        spy=budgets,
    ),
    Call("check", {"--page": ("https://example.org/", code)}, spy=pages),
)

CONSISTENCY = (
    Call(
        "consistency {consistency} --since {early} --checkpoint {checkpoint}",
        {
            "--since": ("{middle}", code),
            "--checkpoint": ("{middle}", code),
            "--member": ("{keys}/bert", code),
            "--json": (None, out),
            **BUDGET,
        },
        spy=budgets,
    ),
    Call(
        "consistency {consistency} --since {early} --checkpoint {checkpoint} "
        "--member {quiet_keys}/party-1",
        {"--variant": ("{quiet}", code)},
    ),
    Call("evidence {evidence}", {"--json": (None, out), **BUDGET}, spy=budgets),
)

PREFLIGHT = (
    Call(
        "preflight {plan}",
        {
            "--records": ("{table}", out),
            "--purse": ("{keys}/anna.purse", out),
            "--json": (None, out),
            **BUDGET,
        },
        spy=budgets,
    ),
    Call("preflight {plan} --purse {keys}/anna.purse", {"--budget": ("2.5", code)}),
    Call("preflight {plan} --purse {keys}/anna.purse --budget 9", {"--honest": ("2", out)}),
    Call(
        "preflight {plan} --purse {keys}/anna.purse --budget 9 --honest 2",
        {"--delta": ("1e-5", out)},
    ),
    Call("preflight {summed}", {"--parties": ("12", out)}),
    Call("preflight {plan} --records {people} --purse {keys}/anna.purse", {"--id": ("who", out)}),
    Call("preflight {fresh}/party-1", {"--connect": ("127.0.0.1:1", code)}),
    Call("preflight {fresh}/party-1 --records {loud}", {"--plan": ("{forgiving}", code)}),
    Call("preflight {quiet_keys}/party-1", {"--variant": ("{quiet}", code)}),
)

CALLS = (*AUDIT, *VERIFY, *ESTIMATE, *EXPLAIN, *READ, *PROVE, *CHECK, *CONSISTENCY, *PREFLIGHT)
