"""Cells that list several answers, such as ticked boxes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from scenarios.data.own_tables.proposals.columns import (
    LISTED,
    NO_ANSWER,
    Answers,
    Decision,
    Limits,
    Matter,
    Proposed,
    is_fit,
)
from scenarios.data.own_tables.question import NOT_TICKED_OR_TICKED, Question, normalize
from scenarios.data.own_tables.sheets import tidied
from scenarios.wording.formatting import some

_SEPARATORS = ("|", ";", ",")
_MOST = 40
"""Maximum number of different answers in lists."""

_SHARE, _KNOWN, _LONE = 0.02, 0.8, 0.8


class _List(NamedTuple):
    """The way in which cells list answers.

    Args:
        separator: the sign between answers.
        times: in how many rows each is, in its most frequent spelling.
        respelt: answers with several spellings, which differ only by case or blanks.
    """

    separator: str
    times: Counter[str]
    respelt: frozenset[str]


def propose_lists(name: str, answers: Answers, limits: Limits) -> Proposed | None:
    """The proposal for a column of lists; None for other columns."""
    rare = max(2, answers.few(limits.rare))
    found = _detect_list(answers.counts, rare, ignore_case=limits.ignore_case)
    if found is None:
        return None
    times = found.times
    kept = [item for item in sorted(times) if times[item] >= rare and is_fit(f"{name}: {item}")]
    unanswered = answers.missing.total() - answers.missing[""]
    questions = tuple(
        Question(
            name=f"{name}: {item}",
            column=name,
            ticked=item,
            separator=found.separator,
            categories=(*NOT_TICKED_OR_TICKED, *((NO_ANSWER,) if unanswered else ())),
            missing=NO_ANSWER if unanswered else None,
            ignore_case=item in found.respelt,
        )
        for item in kept
    )
    named = some(map(repr, kept), len(kept), LISTED)
    said = f"lists what was ticked, with {found.separator!r} between: yes or no for each of {named}"
    decisions = [
        Decision(
            Matter.ANSWERS,
            said,
            answers.counts.total(),
            "Delete an attribute that you do not need: each takes its part of epsilon.",
        )
    ]
    if empty := answers.missing[""]:
        change = f'Where it is no answer: missing = "{NO_ANSWER}" and missing_cells = [""].'
        decisions.append(
            Decision(Matter.ANSWERS, "empty cells: taken for nothing ticked", empty, change)
        )
    if lost := sorted(times.keys() - {*kept}):
        rows = sum(times[item] for item in lost)
        said = f"ticked too rarely, left out: {some(map(repr, lost), len(lost), LISTED)}"
        decisions.append(Decision(Matter.ANSWERS, said, rows))
    return Proposed(name, questions, (), tuple(decisions))


def _detect_list(counts: Mapping[str, int], rare: int, *, ignore_case: bool) -> _List | None:
    """The list format of a column's cells; None if they are no lists."""
    for separator in _SEPARATORS:
        spelt: dict[str, Counter[str]] = {}
        sizes, alone = Counter[int](), set[str]()
        for cell, rows in counts.items():
            items = {tidied(part) for part in cell.split(separator)} - {""}
            sizes[len(items)] += rows
            keys = {normalize(item) if ignore_case else item: item for item in items}
            for key, item in keys.items():
                spelt.setdefault(key, Counter())[item] += rows
            if len(keys) == 1:
                alone |= keys.keys()
            if len(spelt) > 20 * _MOST:
                break
        times = {key: spellings.total() for key, spellings in spelt.items()}
        frequent = [key for key in times if times[key] >= rare]
        several = sizes.total() - sizes[0] - sizes[1]
        if several < max(2, _SHARE * sizes.total()) or len(sizes) < 2:
            continue
        known = sum(times[key] for key in frequent) >= _KNOWN * sum(times.values())
        if not 2 <= len(frequent) <= _MOST or len(spelt) > 20 * _MOST or not known:
            continue
        # 'Yes, often' lists nothing: no 'often' is there alone, and few mixtures are.
        mixtures = sum(separator in cell for cell in counts)
        lone = sum(key in alone for key in frequent)
        if lone >= _LONE * len(frequent) or mixtures > 2 * len(frequent):
            named = {key: spellings.most_common(1)[0][0] for key, spellings in spelt.items()}
            respelt = frozenset(named[key] for key in spelt if len(spelt[key]) > 1)
            return _List(separator, Counter({named[key]: times[key] for key in times}), respelt)
    return None
