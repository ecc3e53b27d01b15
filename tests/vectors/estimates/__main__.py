"""Makes ``estimates.json``: small records of every variant, and what follows from each.

``python -m tests.vectors.estimates`` writes it anew, from runs of this program with fixed seeds.
``docs/estimates-from-a-record.md`` says how the figures follow from the records.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

from tests.vectors.estimates.figures import output_of
from tests.vectors.estimates.small_runs import log_of, runs
from tests.vectors.make import FOLDER, Case

FILE = FOLDER / "estimates" / "estimates.json"


def cases() -> Iterator[Case]:
    """All cases, each of a seed of its own."""
    for seed, small in enumerate(runs(), 1):
        log = log_of(small, seed)
        yield {
            "name": small.name,
            "function": "estimate",
            "input": {"log": base64.b64encode(log).decode()},
            "output": output_of(log),
        }


DESCRIPTION = "Whole records, and the estimates and the epsilon that follow from each."
PARAMETERS = {
    "log": "a transcript as docs/transcript-format.md has it, in base64",
    "epsilon": "of the aggregator's ledger: the largest of a respondent, for whole records",
    "tables": "of the announced analysis, those that there are: raw, and under the name of its "
    "projection, if it announces one, what comes of it; steps are those of EM",
    "means": "of attributes that are numbers, or of the values of keys, in the survey's order",
    "between": "fields of the published message, thresholds and laws that lie between; law is the "
    "matrix of the first randomizer, rows the answers",
}


def main() -> None:
    """Write the file."""
    made = {"description": DESCRIPTION, "parameters": PARAMETERS, "cases": list(cases())}
    FILE.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
