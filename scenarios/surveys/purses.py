"""Contents of a purse for its owner, and merging of purses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from parties.keeping.members import Member
from parties.keeping.paying.merging import merge
from parties.keeping.paying.payers import Payers
from parties.keeping.paying.payments import Payment, Recalled, Release
from parties.keeping.paying.recalling import recalled_in
from parties.keeping.purse import PAID, Purse, open_purse, purse_in
from protocol.accounting.spending import Cost, assumed, largest
from protocol.errors import UsageError
from protocol.messages import AGGREGATOR, PartyId
from scenarios.files.budget import within_usual_budget
from scenarios.surveys.members import CHARTER
from scenarios.surveys.preflight import Known, cost_words
from scenarios.wording.formatting import count

_ID = 16
"""The digits of a survey's id that are shown."""


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """Payments for one survey.

    Args:
        survey: the survey's id, hexadecimal.
        parties: parties that answered.
        attempts: number of answered attempts.
        people: number of people that paid by ids; people known to two merged purses count twice.
        everybody: whether something was paid without ids, so that it counts for everybody.
        recalled: whether something is only known from a party's folder, and counts so too.
        spent: the most that one person has spent.
    """

    survey: str
    parties: tuple[PartyId, ...]
    attempts: int
    people: int
    everybody: bool
    recalled: bool
    spent: Cost


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a purse, in counts and sums.

    Args:
        folder: the purse's folder.
        people: number of people that paid by ids, as in ``Survey``.
        spent: the most that one person has spent in all surveys.
        told_apart: number of people told apart from others with similar ids.
        as_one: the most that one person has spent if all who read alike are one.
        surveys: in the order in which they were first paid for.
    """

    folder: str
    people: int
    spent: Cost
    told_apart: int
    as_one: Cost
    surveys: tuple[Survey, ...]


def listing(folder: Path) -> Listing:
    """Read the purse in a folder, in counts and sums.

    Raises:
        UsageError: the purse is missing or malformed.
        OSError: it cannot be read; names the file.
    """
    purse = purse_in(folder)
    if purse is None:
        raise UsageError(f"{folder}: nothing was spent from it yet")
    surveys: dict[bytes, list[Payment]] = {}
    for line in purse.charged:
        surveys.setdefault(line.release.survey, []).append(line)
    return Listing(
        folder=str(folder),
        people=sum(register.people_in([register.seen]) for register in purse.registers),
        spent=_most(purse),
        told_apart=sum(purse.told_apart(each) for each in purse.everybody()),
        as_one=_most(purse, as_one=True),
        surveys=tuple(_survey(purse, lines) for lines in surveys.values()),
    )


def _survey(purse: Purse, lines: Sequence[Payment]) -> Survey:
    survey = lines[0].release.survey
    groups = {line.group for line in lines if line.group is not None}
    return Survey(
        survey=survey.hex(),
        parties=tuple(sorted({line.release.party for line in lines})),
        attempts=len({line.release.session for line in lines}),
        people=sum(
            register.people_in(
                [purse.groups[group] for group in groups if purse.people[group].under == under]
            )
            for under, register in enumerate(purse.registers)
        ),
        everybody=any(line.group is None and not isinstance(line, Recalled) for line in lines),
        recalled=any(isinstance(line, Recalled) for line in lines),
        spent=_most(purse, lambda release: release.survey == survey),
    )


def _most(
    purse: Purse, counted: Callable[[Release], bool] = lambda release: True, *, as_one: bool = False
) -> Cost:
    """The most that one person has spent."""
    people = purse.everybody() or [Payers(None)]
    return largest(purse.spent(each, counted, as_one=as_one).most for each in people)


def known_facts(found: Listing) -> Iterator[Known]:
    """The contents of a purse in sentences, by subject."""
    if not found.surveys:
        yield Known("purse", f"{found.folder}: nothing was spent from it yet.")
        return
    surveys = count(len(found.surveys), "survey")
    by = _people(found.people) if found.people else "without ids"
    yield Known("purse", f"{found.folder}: paid from {by}, for {surveys}.")
    for survey in found.surveys:
        who = [_people(survey.people)] if survey.people else []
        who += ["without ids, so by anybody"] if survey.everybody else []
        who += ["by whom is not known, as only a party's folder recalls it"] * survey.recalled
        how = f"{count(survey.attempts, 'attempt')} as {', '.join(survey.parties)}"
        paid = f"{_most_spent(survey.spent)}; paid {', and '.join(who)}"
        yield Known("survey", f"{survey.survey[:_ID]}, {how}: {paid}.")
    yield Known("spent", f"{_most_spent(found.spent)} in all surveys.")
    if found.told_apart:
        yield Known(
            "apart",
            f"{count(found.told_apart, 'person', 'people')} of them read like somebody else and "
            f"were told apart; were they not, it would be {_most_spent(found.as_one)}.",
        )


def _people(number: int) -> str:
    return f"by {count(number, 'person', 'people')}"


def _most_spent(spent: Cost) -> str:
    return f"at most {cost_words(spent)} for each{assumed(spent.honest)}"


def merge_into(folder: Path, sources: Sequence[Path], member_in: Callable[[Path], Member]) -> int:
    """Add missing payments from other purses and members' folders.

    Args:
        folder: folder of the purse, made if there is none.
        sources: folders of either kind.
        member_in: reads a member's.

    Returns:
        How many lines were added.

    Raises:
        UsageError: a source is neither, or malformed; nothing was added.
        OSError: a file cannot be read or written; names it.
    """
    others, recalled = list[Purse](), list[Recalled]()
    for source in sources:
        if (source / CHARTER).exists():
            member = member_in(source)
            if member.identity.name == AGGREGATOR:
                raise UsageError(f"{source}: is the aggregator's, which pays for nobody")
            recalled += recalled_in(member)
            continue
        # Its content is untrusted.
        with within_usual_budget(source / PAID):
            other = purse_in(source)
        if other is None:
            raise UsageError(f"{source}: expected a purse, or a member's folder")
        others.append(other)
    with open_purse(folder) as purse:
        return merge(purse, others, recalled)
