"""Compares a ledger with likelihood ratios: those of each randomizer's law, and sampled ones.

Figures that a randomizer states are not used here: only its law, for pairs of inputs, and its
draws.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.accounting.events import (
    Composed,
    Derived,
    Merged,
    OneOf,
    PrivacyEvent,
    Public,
    Randomized,
    replaced,
    single_events,
)
from protocol.attack.bounds import provable
from protocol.attack.declared import drawn_in, log_ratios, record_inputs
from protocol.attack.probes import strongest_probe
from protocol.attack.row_trials import aligned_fields, rows_of_parties
from protocol.attack.trials import TARGET, Study, distant_pair, whole_runs
from protocol.audit.at_delta import worst_respondent
from protocol.audit.coalition.coalition import Coalition
from protocol.audit.ledger import REFUSED, Account, Ledger
from protocol.crypto.randomness import Stream, secret_of
from protocol.errors import UnsupportedEventError
from protocol.messages import AGGREGATOR
from protocol.randomizers import Randomizer
from protocol.randomizers.exact import log_fraction
from protocol.randomizers.randomizer import MOST_INPUTS
from protocol.randomizers.vetting import (
    check_stated,
    gives,
    is_randomizer,
    known,
    refusing,
    some_pairs,
)
from protocol.session.variant import Drawn, Variant, settled
from protocol.sharing.messages import is_summed
from protocol.simulation.rehearsal import Rehearsal
from protocol.simulation.setting import service_names
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey

MOST_RECORDS = 12
"""The most different records that are all compared with each other; of more, some are."""

ACCOUNTS = 8
"""The number of parties with recorded messages that are compared."""

LOSSES = 2_048
"""The most different losses of a respondent's messages in an exact composition."""

DELTAS = (1e-6, 0.05)
"""The deltas at which the tighter figure is compared."""

ROWS = 4_000
"""The number of reports that are drawn of two records."""

RUNS = 100
"""The number of runs on one of two records each, where they can exceed the ledger's figure."""

LEVEL = 1e-9
"""The probability that the sampled ratio contradicts a correct ledger."""

# The most that a ledger's figure may be below the exact one, relative to it.
_ROUNDING = 1e-9

Codes: TypeAlias = NDArray[np.int64]
Law: TypeAlias = dict[Fraction, Fraction]
"""Probabilities under the first of two records, by the ratio of the second's probability to it."""


def check_ledger(rehearsal: Rehearsal) -> tuple[str, ...]:
    """Compare a run's ledger with the laws of its messages.

    1. Each randomizer's stated figures agree with its law.
    2. For no two records can the messages of a respondent have a likelihood ratio beyond the
       charge: for the record, and for an attribute if the records differ in it alone.
    3. Neither do the messages on record. They hold the reports of every law, and it can draw them.
    4. At a delta, the exact composition of the laws is within the ledger's figure.

    Returns:
        What could not be checked, and why: reports under masks, and those of a randomizer without a
        law, which is charged its stated figure.

    Raises:
        AssertionError: a figure is too low; names the respondent and the excess. Or a message does
            not hold what its event says.
    """
    ledger, survey = rehearsal.ledger(rehearsal.serving), rehearsal.charter.variant.survey
    accounts = list(ledger.accounts.values())
    for event in {charge.event for account in accounts for charge in account.trail}:
        for part in _draws(event):
            try:
                check_stated(part.randomizer)
            except UnsupportedEventError as error:
                raise AssertionError(f"the ledger: {error}") from error
    pairs = list(_record_pairs(survey))
    different = {tuple(id(charge.loss) for charge in a.trail): a for a in reversed(accounts)}
    for account in different.values():
        for names, first, second in pairs:
            ratio = math.fsum(_worst(c.event, survey, first, second) for c in account.trail)
            _check_charge(account, survey, names, (first, second), ratio, "can have messages")
    unseen: dict[str, None] = {}
    for account in accounts[:ACCOUNTS]:
        unseen.update(dict.fromkeys(_check_drawn(rehearsal, account)))
        for names, first, second in pairs:
            _check_recorded(rehearsal, account, names, first, second)
    if settled(rehearsal.charter.variant):
        alone = _without_others(ledger)
        for delta in DELTAS:
            try:
                found = worst_respondent(alone, delta, settled=True)
            except UnsupportedEventError:
                break  # An audit says so.
            if found is not None and found.everybody:
                for account in different.values():
                    _check_composed(account, survey, pairs, found.composition.epsilon, delta)
    return tuple(unseen)


def _without_others(ledger: Ledger) -> Ledger:
    """A ledger in which no message is merged with those of others."""

    def bare(part: PrivacyEvent) -> PrivacyEvent:
        return part.event if isinstance(part, Merged) else part

    accounts = {
        name: msgspec.structs.replace(
            account,
            trail=tuple(each._replace(event=replaced(each.event, bare)) for each in account.trail),
        )
        for name, account in ledger.accounts.items()
    }
    return msgspec.structs.replace(ledger, accounts=accounts)


def check_frequencies(variant: Variant, records: Records, *, seed: int) -> tuple[str, ...]:
    """Compare a ledger with the frequencies of drawn reports on two records.

    If a party sends a row for each of its respondents, a trial is a row. If it does not, or adds
    something up, a trial is a run.

    Returns:
        Figures that so few trials cannot exceed, whatever leaks.

    Raises:
        AssertionError: reports reveal more than the ledger charges.
    """
    pair = distant_pair("a respondent's reports", records)
    study = Study(
        variant=variant,
        records=records,
        target=0,
        mate=None,
        observer=Coalition((AGGREGATOR, *service_names(variant.roles))),
        stream=Stream(secret_of(seed)).derive("contract"),
    )
    fields = aligned_fields(study, pair)
    rows = rows_of_parties(study, pair, ROWS, copies=ROWS, fields=fields) if fields else None
    named = ", ".join(name.removeprefix(f"{TARGET}'s ") for name in fields)
    sorts = [] if rows is None else [(f"{ROWS:,} reports in {named}", rows)]
    if rows is None or is_summed(variant, len(records)):
        runs = whole_runs(study, pair, 2)
        if runs.bound < provable(RUNS // 2, alpha=LEVEL, delta=0.0):
            runs = whole_runs(study, pair, RUNS)
        sorts.append((f"{RUNS:,} runs", runs))
    unseen = []
    for what, trials in sorts:
        found = strongest_probe(pair, [trials], level=LEVEL, delta=0.0)
        if found.accused:
            raise AssertionError(
                f"the ledger: {what} tell at least epsilon {found.lower:.4f} of a record, and the "
                f"ledger says at most {found.bound:.4f}: {found.right} of {found.guesses} guesses "
                f"were right that went by {found.event}"
            )
        if found.undecided:
            unseen.append(f"{what} cannot exceed epsilon {trials.bound:.4f}, the ledger's")
    return tuple(unseen)


def _record_pairs(survey: Survey) -> Iterator[tuple[tuple[str, ...], Codes, Codes]]:
    """Pairs of records, and the attributes in which they differ."""
    sizes = survey.sizes
    for place, size in enumerate(sizes):
        inputs = range(size) if size <= MOST_RECORDS else (0, 1, size // 2, size - 1)
        for one, other in itertools.combinations(inputs, 2):
            first, second = np.zeros(len(sizes), np.int64), np.zeros(len(sizes), np.int64)
            first[place], second[place] = one, other
            yield (survey.names[place],), first, second
    if len(sizes) == 1:
        return
    ends = [np.zeros(len(sizes), np.int64), np.array(sizes, np.int64) - 1]
    records = ends
    if survey.cells <= MOST_RECORDS:
        records = [np.array(cell, np.int64) for cell in np.ndindex(*sizes)]
    for first, second in itertools.combinations(records, 2):
        differ = np.flatnonzero(first != second)
        if len(differ) > 1:
            yield tuple(survey.names[place] for place in differ), first, second


def _check_drawn(rehearsal: Rehearsal, account: Account) -> Iterator[str]:
    """Find the reports in a party's messages; yields reasons why some are not checked."""
    variant, records = rehearsal.charter.variant, rehearsal.setting.holdings[account.party]
    for charge in account.trail:
        draws = list(dict.fromkeys(_draws(charge.event)))
        if not draws or charge.seq == REFUSED or math.isinf(charge.loss.record):
            continue
        if charge.summed:
            yield f"{charge.kind!r}: its reports are under masks"
            continue
        try:
            for draw in draws:
                known(draw.randomizer)
        except UnsupportedEventError as error:
            yield f"{charge.kind!r}: {error}"
            continue
        messages = rehearsal.messages(rehearsal.sent[account.party, charge.seq]).values()
        searched = (drawn_in(each, charge.event, variant, records) for each in messages)
        found = next((each for each in searched if each is not None), None)
        if found is None or any((part.respondents >= len(records)).any() for part, _ in found):
            names = " and ".join(", ".join(draw.attributes) for draw in draws)
            raise AssertionError(
                f"the ledger: {charge.kind!r} is charged as reports on {names}, and they are not "
                f"found in it: expected one array that they fit, or a method 'drawn' of "
                f"{variant.name!r} that says where they are"
            )
        for part, _ in found:
            try:
                with refusing(part.event.randomizer):
                    possible = _can_draw(part)
            except UnsupportedEventError as error:
                raise AssertionError(f"the ledger: {error}") from error
            if not possible:
                raise AssertionError(
                    f"the ledger: {charge.kind!r} has a report on "
                    f"{', '.join(part.event.attributes)} that its law gives of no answer"
                )


def _can_draw(part: Drawn) -> bool:
    """True if each report is possible for some input; True too if there are many inputs."""
    randomizer, possible = part.event.randomizer, np.zeros(len(part.reports), np.bool_)
    if not 2 <= randomizer.size <= MOST_INPUTS:
        return True
    for code in range(randomizer.size):
        other = 0 if code else 1
        law = np.array([one.first > 0 for one in randomizer.law(code, other)])
        possible |= law[randomizer.classify(part.reports, code, other)]
        if possible.all():
            break
    return bool(possible.all())


def _check_recorded(
    rehearsal: Rehearsal, account: Account, names: Sequence[str], first: Codes, second: Codes
) -> None:
    variant, total = rehearsal.charter.variant, 0.0
    for charge in account.trail:
        if charge.seq == REFUSED or math.isinf(charge.loss.record):
            continue
        for message in rehearsal.messages(rehearsal.sent[account.party, charge.seq]).values():
            ratios = log_ratios(message, charge.event, variant, (first, second))
            if ratios is not None:
                total += float(np.abs(ratios).max(initial=0.0))
    records = (first, second)
    _check_charge(account, variant.survey, names, records, total, "have messages on record")


def _check_charge(
    account: Account,
    survey: Survey,
    names: Sequence[str],
    records: tuple[Codes, Codes],
    ratio: float,
    what: str,
) -> None:
    """Refuse a log likelihood ratio beyond the charge for the record, or for its only attribute."""
    figures = {"the record": account.loss.record}
    if len(names) == 1:
        figures[repr(names[0])] = account.loss.attributes.get(names[0], 0.0)
    for about, charged in figures.items():
        if ratio > charged * (1 + _ROUNDING):
            first, second = (_shown(survey, record) for record in records)
            raise AssertionError(
                f"the ledger: {account.party} is charged epsilon {charged:.6g} for {about}, and "
                f"({first}) and ({second}) {what} whose log likelihood ratio is {ratio:.6g}"
            )


def _check_composed(
    account: Account,
    survey: Survey,
    pairs: Sequence[tuple[tuple[str, ...], Codes, Codes]],
    epsilon: float,
    delta: float,
) -> None:
    draws = [draw for charge in account.trail for draw in _draws(charge.event)]
    if math.isinf(epsilon) or any(_has_choice(charge.event) for charge in account.trail):
        return
    bound = Fraction(math.exp(epsilon)) * (1 + Fraction(1, 10**9))
    for _, *records in pairs:
        for first, second in (records, records[::-1]):
            law = _composed(draws, survey, first, second)
            if law is None:
                return
            beyond = [share * (1 - bound * ratio) for ratio, share in law.items()]
            left = sum((part for part in beyond if part > 0), Fraction(0))
            if left > delta * (1 + _ROUNDING):
                raise AssertionError(
                    f"the ledger: at delta {delta:g} {account.party} is charged epsilon "
                    f"{epsilon:.6g}, and of ({_shown(survey, first)}) and "
                    f"({_shown(survey, second)}) more is left to chance: {float(left):.6g}"
                )


def _composed(
    draws: Sequence[Randomized], survey: Survey, first: Codes, second: Codes
) -> Law | None:
    """The law of all these draws together; None if a law or an input is unknown."""
    found: Law = {Fraction(1): Fraction(1)}
    for draw in draws:
        inputs = _inputs(draw, survey, first, second)
        law = None if inputs is None else _law(draw.randomizer, *inputs)
        if law is None or len(found) * len(law) > LOSSES:
            return None
        after: Law = {}
        for (one, share), (other, part) in itertools.product(found.items(), law.items()):
            after[one * other] = after.get(one * other, Fraction(0)) + share * part
        found = after
    return found


def _law(randomizer: Randomizer, first: int, second: int) -> Law | None:
    if first == second:
        return {Fraction(1): Fraction(1)}
    found: Law = {}
    listed = _listed(randomizer, first, second)
    if listed is None:
        return None
    for one, other in listed:
        if one:
            found[other / one] = found.get(other / one, Fraction(0)) + one
    return found


def _worst(event: PrivacyEvent, survey: Survey, first: Codes, second: Codes) -> float:
    """The largest known log likelihood ratio of a message with this event."""
    match event:
        case Public() | Derived():
            return 0.0
        case Randomized():
            inputs = _inputs(event, survey, first, second)
            if inputs is not None:
                return _ratio(event.randomizer, *inputs)
            differ = any(first[axis] != second[axis] for axis in survey.axes(event.attributes))
            # Only the variant knows the inputs of these records.
            return _largest(event.randomizer) if differ else 0.0
        case Composed(events):
            return math.fsum(_worst(part, survey, first, second) for part in events)
        case OneOf(events):
            return max((_worst(part, survey, first, second) for part in events), default=0.0)
        case _:
            return 0.0


def _inputs(draw: Randomized, survey: Survey, first: Codes, second: Codes) -> list[int] | None:
    codes = np.stack((first, second)).astype(survey.dtype)
    return record_inputs(draw, Records(survey, codes))


@functools.lru_cache(maxsize=4096)
def _ratio(randomizer: Randomizer, first: int, second: int) -> float:
    listed = None if first == second else _listed(randomizer, first, second)
    worst = 0.0
    for one, other in listed or ():
        low, high = min(one, other), max(one, other)
        if high:
            worst = max(worst, log_fraction(high / low) if low else math.inf)
    return worst


@functools.lru_cache(maxsize=256)
def _largest(randomizer: Randomizer) -> float:
    try:
        with refusing(randomizer):
            return max(_ratio(randomizer, *pair) for pair in some_pairs(randomizer))
    except UnsupportedEventError:
        return 0.0


@functools.lru_cache(maxsize=4096)
def _listed(
    randomizer: Randomizer, first: int, second: int
) -> tuple[tuple[Fraction, Fraction], ...] | None:
    """The probabilities of every report, or class of reports, of two inputs; None without a law."""
    if not is_randomizer(randomizer):
        return None
    if gives(randomizer, "row") and randomizer.size <= MOST_INPUTS:
        with contextlib.suppress(UnsupportedEventError), refusing(randomizer):
            return tuple(zip(randomizer.row(first), randomizer.row(second), strict=True))
    # A table may be too large to be listed, with few classes.
    with contextlib.suppress(UnsupportedEventError), refusing(randomizer):
        return tuple(part[:2] for part in randomizer.law(first, second))
    return None


def _draws(event: PrivacyEvent) -> Iterator[Randomized]:
    return (part for part in single_events(event) if isinstance(part, Randomized))


def _has_choice(event: PrivacyEvent) -> bool:
    """True if a part is one of several events."""
    if isinstance(event, Composed):
        return any(map(_has_choice, event.events))
    return isinstance(event, OneOf)


def _shown(survey: Survey, record: Codes) -> str:
    answers = zip(survey.attributes, record.tolist(), strict=True)
    return ", ".join(f"{a.name}: {a.categories[code]}" for a, code in answers)
