"""Spot check in a statement: people to ask, and the power of asking them."""

from __future__ import annotations

from typing import Any

from protocol.audit.proofs.spot import Spot
from scenarios.statement.statement import Grid, Section
from scenarios.wording.formatting import count, cut, epsilon, rest, upper

SHARES = (0.05, 0.1)
"""Shares of made-up places for which the probability to miss all is given."""

LISTED = 1_000

ASK = (
    "The organiser names the people of these places. The auditor calls each, asks whether their "
    "page says \N{LEFT DOUBLE QUOTATION MARK}Counted: yes\N{RIGHT DOUBLE QUOTATION MARK}, and asks "
    "nothing about their answers."
)
NOT_SHOWN = (
    "It does not show that the people named are those who were invited, that they answered "
    "truthfully or by themselves, or that nobody was left out."
)
CHOSEN = (
    "Whoever writes the record can write it again until the draw suits it. Words that the auditor "
    "chooses once the record is published (--spot-words) prevent that."
)


def spot(found: Spot) -> Section:
    """Section on the drawn places, and the power of asking their people."""
    title = "Spot check by telephone"
    if found.root is None:
        lead = "Cannot draw places: expected a checkpoint of the whole record by the aggregator."
        return Section(key="spot", title=title, lead=lead)
    drawn = len(found.places)
    fewer = f", fewer than the {found.asked:,} asked for" if drawn < found.asked else ""
    which = f"All {drawn:,}" if drawn == found.counted else f"{drawn:,} of {found.counted:,}"
    words = " and the auditor's words" if found.words else ""
    by = f"by the root of the last checkpoint, of {count(found.size, 'leaf', 'leaves')}{words}"
    missed = "; ".join(
        f"if {100 * share:g} % of the counted places were made up, {_miss_sentence(found, share)}"
        for share in SHARES
    )
    return Section(
        key="spot",
        title=title,
        lead=f"{which} counted {'place is' if drawn == 1 else 'places are'} drawn {by}{fewer}.",
        notes=(
            ASK,
            f"{upper(missed)}.",
            NOT_SHOWN,
            *(() if found.words else (CHOSEN,)),
        ),
        grids=(
            Grid(
                key="spot",
                caption="Places to ask, in the order drawn",
                columns=("Place",),
                rows=tuple((cut(place),) for place in found.places[:LISTED]),
                more=rest(drawn, LISTED, "in the JSON report"),
            ),
        ),
    )


def _miss_sentence(found: Spot, share: float) -> str:
    """Sentence on the probability that no made-up place is drawn."""
    percent = 100 * found.missed(share)
    most = "less than 0.01" if percent < 0.01 else f"at most {epsilon(percent)}"
    return f"none of them is drawn with a probability of {most} %"


def spot_values(found: Spot) -> dict[str, Any]:
    """The spot check for JSON."""
    return {
        "asked": found.asked,
        "counted": found.counted,
        "root": None if found.root is None else found.root.hex(),
        "size": found.size,
        "words": found.words,
        "places": found.places,
        "missed": [
            {"share": share, "probability": found.missed(share)}
            for share in SHARES
            if found.root is not None
        ],
    }
