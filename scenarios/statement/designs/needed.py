"""Statement of the epsilon or the respondents that an error needs."""

from __future__ import annotations

from collections.abc import Sequence

from scenarios.designing.assumed import Given
from scenarios.designing.designing import Setup
from scenarios.designing.needing import Needed
from scenarios.designing.summing import among_values
from scenarios.statement.designs.privacy import privacy_sentence
from scenarios.statement.designs.recommended import IN_PLAN
from scenarios.statement.designs.setting import (
    REVEALS,
    Values,
    setup_values,
    target_words,
    whom_words,
)
from scenarios.statement.designs.values import row_lines
from scenarios.statement.statement import Grid, Section, Statement
from scenarios.wording.formatting import count, epsilon


def state_needed(
    setup: Setup, error: float, level: float, needed: Sequence[Needed], without: Sequence[str]
) -> Statement:
    """Statement of the needs for an error.

    Args:
        error: the error.
        level: the confidence level.
        needed: the results.
        without: the variants that cannot promise it.
    """
    notes = [f"About {whom_words(setup)}, if {setup.shares.says}."]
    if any(one.candidate.among for one in needed):
        notes.append(
            f"if honest: that epsilon holds at delta {setup.delta:g} if so many parties are honest "
            "and stay. Nothing bounds what is revealed if all others conspire. The other epsilons "
            "hold whoever conspires. Do not compare the two."
        )
    if without:
        notes.append(
            f"No promise for {', '.join(without)}: they do not estimate it, have no closed form, "
            "would take more than is searched, or give exact counts, which no epsilon bounds."
        )
    if isinstance(setup.shares, Given):
        notes.append(REVEALS)
    return Statement(
        title=f"What it takes to estimate each share of {target_words(setup)} to within "
        f"{error:g}, with a probability of {level:g} each:",
        sections=(
            _first(needed),
            Section(
                key="needed",
                title="What each variant takes",
                grids=(_grid(needed),),
                place="result",
            ),
            Section(key="notes", title="Notes", notes=tuple(notes)),
        ),
        values=needed_values(setup, error, level, needed),
    )


def _first(needed: Sequence[Needed]) -> Section:
    """The best way whoever conspires, and the best way with honest others."""
    alone = [one for one in needed if one.candidate.among is None]
    honest = [one for one in needed if one.candidate.among is not None]
    best = (alone or honest)[0]
    sentences = [privacy_sentence(best.candidate, best.epsilon)]
    firsts = {one.epsilon: one for one in reversed(alone) if one.respondents != best.respondents}
    sentences += [f"{_way(one)} is enough, too." for one in reversed(firsts.values())]
    if alone and honest:
        other = honest[0]
        sentences.append(
            f"With honest others, {_way(other)} is enough. {privacy_sentence(*other[:2])}"
        )
    lines = row_lines(best)
    return Section(
        key="recommended",
        title=f"Take this: {_way(best)}",
        notes=(" ".join(sentences), *((IN_PLAN,) if lines else ())),
        code=lines,
        place="result",
    )


def _way(one: Needed) -> str:
    respondents = count(one.respondents, "respondent")
    return f"{one.candidate.name} at epsilon {epsilon(one.epsilon)} with {respondents}"


def _grid(needed: Sequence[Needed]) -> Grid:
    return Grid(
        key="variants",
        caption="What each variant takes",
        columns=("variant", "parameters", "#epsilon", "#respondents", "#if honest"),
        rows=tuple(
            (
                one.candidate.name,
                one.candidate.chosen,
                epsilon(one.epsilon),
                f"{one.respondents:,}",
                _honest(one),
            )
            for one in needed
        ),
    )


def _honest(one: Needed) -> str:
    among = one.candidate.among
    return "" if among is None else f"{among.honest:,}"


def needed_values(setup: Setup, error: float, level: float, needed: Sequence[Needed]) -> Values:
    """Needs for an error, for JSON."""
    return {
        **setup_values(setup),
        "error": error,
        "level": level,
        "needed": [
            {
                "variant": one.candidate.family,
                "name": one.candidate.name,
                "chosen": one.candidate.chosen,
                "epsilon": one.epsilon,
                "respondents": one.respondents,
                **among_values(one.candidate.among),
                "plan": "\n".join(row_lines(one)) or None,
            }
            for one in needed
        ],
    }
