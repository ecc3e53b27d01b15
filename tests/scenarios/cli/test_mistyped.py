"""Mistakes on the command line: names, numbers and files that are others.

Further ones, of scenarios and of their parameters, are in ``test_bad_input``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.cli.refusing import CHECKPOINT, TRANSCRIPT, refusal

ESTIMATE = f"estimate {TRANSCRIPT}"
AUDIT = f"audit {TRANSCRIPT}"
RUN = "run plan.toml --records t.csv"
DESIGN = "design plan.toml --n 1000"
PLAN = "plan --from t.csv"

NAMES = [
    (f"estmate {TRANSCRIPT}", "no command 'estmate'; did you mean 'estimate'?"),
    (f"{ESTIMATE} --tabel age", "no option '--tabel'; did you mean '--table'?"),
    (f"{RUN} --epsilon 2", "no option '--epsilon'; 'sottovoce run --help' lists all"),
    ("run -x", "no option '-x'; 'sottovoce run --help' lists all"),
    ("-m run", "no option '-m'; 'sottovoce --help' lists all"),
    (f"{ESTIMATE} --table smoke", "--table 'smoke': no attribute 'smoke'; did you mean 'smokes'?"),
    (f"{ESTIMATE} --table AGE", "--table 'AGE': no attribute 'AGE'; did you mean 'age'?"),
    (f"{ESTIMATE} --table age,age", "--table 'age,age': expected different attributes"),
    (f"{ESTIMATE} --independent age,age", "--independent 'age,age': expected different attributes"),
    (
        f"{ESTIMATE} --where smokes=yse",
        "--where 'smokes=yse': smokes has no category 'yse'; did you mean 'yes'? It has 'no', "
        "'yes'",
    ),
    (
        f"{ESTIMATE} --where smokes=maybe",
        "--where 'smokes=maybe': smokes has no category 'maybe'; it has 'no', 'yes'",
    ),
    (
        f"{AUDIT} --trail Party-01",
        "--trail: 'Party-01' is not on the roster of 16 members; did you mean 'party-01'?",
    ),
    (
        f"prove {TRANSCRIPT} anna",
        "'anna' is not on the roster of 15 parties: 'party-01', 'party-02', 'party-03' and 12 more",
    ),
    (
        "run quickstart --set P=0.5",
        "scenario 'quickstart' has no parameter 'P'; did you mean 'p'? It has p, residents, "
        "parties",
    ),
    (
        "run adult-joint --set project=flat",
        "parameter 'project' = 'flat': expected none or clip or simplex or em",
    ),
    (
        "keys plan.toml --party anna --party anna --out keys",
        "party id 'anna': expected distinct names, other than the aggregator's",
    ),
]

NUMBERS = [
    ("run quickstart --set p=0,5", "parameter 'p' = '0,5': expected a number; did you mean 0.5?"),
    ("run quickstart --set p=50%", "parameter 'p' = '50%': expected a number; did you mean 0.5?"),
    (
        "run quickstart --set residents=1,000",
        "parameter 'residents' = '1,000': expected a whole number; did you mean 1000?",
    ),
    (f"{ESTIMATE} --level 95", "'--level': '95' is not in the range 0<x<1; did you mean 0.95?"),
    (f"{ESTIMATE} --level 95%", "'--level': '95%' is not a number; did you mean 0.95?"),
    (f"{ESTIMATE} --level 0,95", "'--level': '0,95' is not a number; did you mean 0.95?"),
    (f"{DESIGN} --error 2%", "'--error': '2%' is not a number; did you mean 0.02?"),
    (f"{PLAN} --epsilon two", "'--epsilon': 'two' is not a number."),
    (f"{PLAN} --epsilon 1e400", "'--epsilon': '1e400': expected a finite number."),
    (f"{PLAN} --epsilon inf", "'--epsilon': 'inf': expected a finite number."),
    (f"{AUDIT} --seconds inf", "'--seconds': 'inf': expected a finite number."),
    (f"{PLAN} --bins 8.5", "'--bins': '8.5' is not a whole number."),
    (f"{RUN} --parties 2,000", "'--parties': '2,000' is not a whole number; did you mean 2000?"),
    (f"{RUN} --parties 100", "parameter 'parties' = 100: more than the 15 records"),
    (f"{RUN} --seed abc", "'--seed': 'abc' is not a whole number."),
    (
        "design plan.toml --n 1.000 --epsilon 2",
        "'1.000': expected an integer from 1 to 9,007,199,254,740,992; did you mean 1000?",
    ),
    (f"{DESIGN} --epsilon 2;4", "with commas between them; did you mean 2,4?"),
    (f"{DESIGN} --epsilon 4,0", "with commas between them; did you mean 4.0?"),
]

FILES = [
    (f"check {TRANSCRIPT} --checkpoint {CHECKPOINT}", "a transcript: it is for 'sottovoce audit'"),
    ("check plan.toml", "plan.toml: a plan: it is for 'sottovoce preflight'"),
    ("audit p.svr", "p.svr: a receipt; expected a transcript"),
    ("estimate t.csv", "t.csv: a table; expected a transcript"),
    ("estimate plan.toml", "plan.toml: a plan; expected a transcript"),
    ("audit out/result.json", "out/result.json: a JSON file; expected a transcript"),
    ("design t.csv --n 100 --epsilon 2", "t.csv: a table; expected a TOML file"),
    ("run plan.toml --records plan.toml", "plan.toml: a plan; expected a table"),
    (f"plan --from {TRANSCRIPT}", f"{TRANSCRIPT}: a transcript; expected a table"),
    (f"{AUDIT} --checkpoint p.svr", "p.svr: not a checkpoint, which is a text"),
    ("evidence t.csv", "t.csv: not evidence: not JSON"),
    ("run plan.toml --records tt.csv", "tt.csv: no such file or folder"),
    ("preflight plans.toml", "plans.toml: no such file or folder"),
    (f"{RUN} --out t.csv/x", "t.csv/x: a part of this path is a file; expected a folder"),
    (f"{AUDIT} --html t.csv", "--html t.csv: expected a name that ends in .html, .htm"),
    (f"{RUN} --html page.csv", "--html page.csv: expected a name that ends in .html, .htm"),
    (f"{ESTIMATE} --synthetic s.xlsx", "--synthetic s.xlsx: expected a name that ends in .csv"),
    ("page t.csv", "FILE t.csv: expected a name that ends in .html, .htm"),
]


@pytest.mark.parametrize(("typed", "says"), [*NAMES, *NUMBERS, *FILES])
def test_of_a_command(typed: str, says: str, here: Path) -> None:
    assert refusal(here, *typed.split(" ")).endswith(says)
