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
from tests.vectors.formats import FOLDER, Case

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
    "tables": "of the announced analysis, those that are published: attributes; raw shares, "
    "nested, an axis for each attribute; under the name of the announced projection the "
    "projected ones, and the steps of EM",
    "means": "of attributes that are numbers; with frequencies, of keys in the survey's order",
    "between": "fields of the published message, as below; randomizers; law, the matrix of the "
    "first randomizer with a row for each answer; dependences of all attributes, with 1 on the "
    "diagonal, from which clusters are made",
    "Pooled, Clustered": "codes, the different reports, as codes of all attributes; counts, how "
    "often each was reported",
    "Counted": "reports on each choice; totals for each choice: how often each cell or bit was "
    "reported, in ..-ht how often the answer 1",
    "AttributeTallies": "reports on each attribute; totals for each category of one attribute "
    "after the other: how many reports count for it; for numeric-mean how often each y was "
    "reported",
    "Released": "number of blocks; respondents that answered; raw shares of all cells; counts of "
    "all cells, over all blocks",
    "SymbolCounts": "counts by round, key and symbol",
    "ByStratum": "strata: for each with reports, the fields of its Pooled; effective_n",
    "randomizers": "as in docs/estimates-from-a-record.md; step of one-bit is "
    "2^64 g / (2 (r - 1)), rounded down; step and window of piecewise are its j and W; "
    "key_response and value_response of privkv are keep on two categories, with the a for which "
    "p1 or p2 is (1 + a) / 2, and its law has F = 0; rrba has only the threshold of each group",
}


def main() -> None:
    """Write the file."""
    made = {"description": DESCRIPTION, "parameters": PARAMETERS, "cases": list(cases())}
    FILE.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
