"""The empirical audit: attacks what an observer sees, and proves how much it tells at least.

Many seeded runs on two neighbouring inputs; a guess, from the view, at which of them it was; and
from the number of right guesses an exact lower bound on epsilon, to be held against the upper bound
of the ledger. No variant needs code of its own for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from protocol.messages import AGGREGATOR, RECORD, PartyId
from protocol.privacy.attack_bounds import (
    Interval,
    clopper_pearson,
    epsilon_of_counts,
    epsilon_of_guesses,
)
from protocol.privacy.attack_events import Guess, declared_guess
from protocol.privacy.attack_learning import learned_guess
from protocol.privacy.attack_trials import (
    Pair,
    Study,
    Trials,
    aligned_fields,
    bound_of,
    is_masked,
    many_parties,
    rows_of_parties,
    whole_runs,
)
from protocol.privacy.events import Composed, PrivacyEvent, Randomized
from protocol.privacy.ledger import Account
from protocol.randomizers import KeepElseTable, MatrixRandomizer
from protocol.randomness import Stream, secret_of
from protocol.records import Records
from protocol.roster import Roster
from protocol.variant import Variant

ALPHA = 1e-9
"""The chance, at most, that an attack accuses a variant whose ledger is right."""

TRIALS = 1_000
"""How many respondents share runs by default,"""

ROW_TRIALS = 100_000
"""how many where every row of an array is one,"""

EXCHANGES = 400
"""and how many couples of them, who exchange their records."""

RUNS = 200
ROWS = 1 << 16
"""How many respondents share a run where every row of an array is one."""

PARTIES = 8
"""How many parties share a run where there are no such rows."""

_ATTEMPTS = 4
"""What is tried of every pair: two sorts of trials, with declared and with learned guesses."""


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """What was tried on one pair of inputs; of several attempts the one that proves most.

    Args:
        pair: how the inputs differ.
        bound: the ledger's upper bound on epsilon; infinite if nothing can exceed it.
        lower: what is proved: epsilon is at least this, at the attack's alpha.
        event: what the guesses go by; empty if nothing was tried.
        learned: whether that was learned from other trials.
        trials: how many views the guesses were made on.
        runs: how many runs these come from.
        guesses, right: how many guesses there were, and how many of them hit.
        first, second: the probability of the event under the input that it speaks for, and under
            the other.
        unbounded: why the ledger's bound is infinite.
    """

    pair: str
    bound: float
    lower: float = 0.0
    event: str = ""
    learned: bool = False
    trials: int = 0
    runs: int = 0
    guesses: int = 0
    right: int = 0
    first: Interval = Interval(0.0, 1.0)
    second: Interval = Interval(0.0, 1.0)
    unbounded: tuple[str, ...] = ()

    @property
    def accused(self) -> bool:
        """Whether more is proved than the ledger admits."""
        return self.lower > self.bound


class Attack(msgspec.Struct, frozen=True, kw_only=True):
    """What an attack found.

    Args:
        variant: the variant's name.
        observer: whose view was attacked.
        target: whose record differed.
        alpha: the chance of a false accusation, at most, over all pairs.
        delta: what is left to chance besides epsilon; 0 for pure epsilon.
        rows: the arrays of which every row was taken as one respondent; none, if there are none.
        probes: one per pair of inputs.
    """

    variant: str
    observer: PartyId
    target: PartyId
    alpha: float
    delta: float
    rows: tuple[str, ...]
    probes: tuple[Probe, ...]

    @property
    def accused(self) -> bool:
        """Whether the variant tells more than its ledger says."""
        return any(probe.accused for probe in self.probes)

    @property
    def worst(self) -> Probe:
        """The probe that exceeds its bound by most, or comes nearest to it."""
        return max(self.probes, key=_excess)


def attack(
    variant: Variant,
    records: Records,
    *,
    target: int = 0,
    observer: PartyId = AGGREGATOR,
    trials: int | None = None,
    runs: int = RUNS,
    copies: int | None = None,
    alpha: float = ALPHA,
    delta: float = 0.0,
    seed: int = 1,
) -> Attack:
    """Attack what an observer sees of a respondent.

    The inputs that are told apart differ in one record: in each attribute alone, to the first and
    to the last category or to the one whose reports differ most by the declared matrix; and in all
    attributes together. Where an exact sum is told, so that the ledger's bound is infinite, two
    respondents exchange their records, which leaves every sum as it was.

    Every pair of inputs is tried in whole runs, whose whole view is attacked, and in runs that many
    respondents share, each with an input of her own. In the latter what is found is sound even if
    respondents share randomness, but what one respondent's words tell of another's record is looked
    for in the whole runs alone.

    Args:
        variant: the variant with its parameters.
        records: a respondent per party; a handful.
        target: whose record differs, from 0.
        observer: whose view: a member, or ``record`` for the holder of the transcript. Against a
            party there are whole runs alone, as many as ``trials``.
        trials: how many respondents share runs, for each pair of inputs; by default 100,000 where
            they are rows of arrays, else 1,000, and 400 couples who exchange their records.
        runs: how many whole runs, at most ``trials``.
        copies: how many respondents share a run; by default 65,536 where they are rows of arrays,
            else 8.
        alpha: the chance of a false accusation, over everything that is tried.
        delta: epsilon is bounded at this delta. Above 0, trials that share a run are taken to be
            independent.
        seed: decides everything.

    Raises:
        ValueError: numbers out of range, or an observer who is the target.
        ProtocolError: the variant does not run.
    """
    if not 0 <= target < len(records):
        raise ValueError(f"target {target}: there are respondents 0 to {len(records) - 1}")
    if min(runs, 2 if trials is None else trials, 2 if copies is None else copies) < 2:
        raise ValueError("trials, runs and copies: expected at least 2")
    clopper_pearson(0, 1, alpha=alpha)
    epsilon_of_counts((0, 0), (1, 1), alpha=alpha, delta=delta)
    study = Study(
        variant=variant,
        records=records,
        target=target,
        mate=None,
        observer=observer,
        stream=Stream(secret_of(seed)).derive("attack"),
    )
    first = study.rehearse(
        records.codes.astype(np.int64), parties=len(records), seed=study.stream.derive("first")
    )
    if first.failure is not None:
        raise first.failure
    roster = first.charter.roster
    party = roster.parties[target]
    _check_observer(observer, roster, party)
    study = msgspec.structs.replace(study, mate=_mate_of(study, roster))
    ledger = first.ledger(observer)
    pairs = _pairs(study, ledger.accounts.get(party))
    rows = aligned_fields(study, pairs[0])
    alone = observer not in (AGGREGATOR, RECORD)
    few, many = (TRIALS, ROW_TRIALS) if trials is None else (trials, trials)
    level = alpha / (_ATTEMPTS * len(pairs))
    probes = []
    for pair in pairs:
        concerned = (target, study.mate) if pair.exchanged else (target,)
        parties = [roster.parties[place] for place in concerned if place is not None]
        bound = bound_of(ledger, pair, parties)
        if math.isinf(bound):
            losses = (ledger.accounts[p].loss for p in parties if p in ledger.accounts)
            why = tuple(dict.fromkeys(r for loss in losses for r in loss.unbounded))
            probes.append(Probe(pair=pair.words, bound=bound, unbounded=why))
            continue
        sorts = [whole_runs(study, pair, few if alone else min(runs, few))]
        shared = None
        if rows and not pair.exchanged:
            shared = rows_of_parties(study, pair, many, copies=copies or ROWS, fields=rows)
        if shared is None and not alone:
            couples = EXCHANGES if pair.exchanged and trials is None else few
            shared = many_parties(study, pair, couples, copies=copies or PARTIES)
        sorts += [shared] if shared is not None else []
        probes.append(_probe(pair, sorts, level=level, delta=delta))
    return Attack(
        variant=variant.name,
        observer=observer,
        target=party,
        alpha=alpha,
        delta=delta,
        rows=rows,
        probes=tuple(probes),
    )


def _check_observer(observer: PartyId, roster: Roster, target: PartyId) -> None:
    if observer != RECORD and observer not in roster:
        raise ValueError(f"observer {observer!r} is not among {len(roster)} members")
    if observer == target:
        raise ValueError(f"observer {observer!r} is the target: she knows her record")


def _mate_of(study: Study, roster: Roster) -> int | None:
    """The next respondent after the target who is not the observer."""
    n, target = len(roster.parties), study.target
    others = (place % n for place in range(target + 1, target + n))
    return next((place for place in others if roster.parties[place] != study.observer), None)


def _pairs(study: Study, account: Account | None) -> tuple[Pair, ...]:
    """What is told apart: each attribute alone, all of them, and where sums are told, exchanges."""
    survey = study.records.survey
    own = study.records.codes[study.target].astype(np.int64)
    events = [charge.event for charge in account.trail] if account is not None else []
    pairs, farthest = [], own.copy()
    for place, name in enumerate(survey.names):
        others = _others(int(own[place]), survey.sizes[place], name, events)
        farthest[place] = others[0]
        for code in others:
            changed = own.copy()
            changed[place] = code
            categories = survey.attributes[place].categories
            words = f"{name}: {categories[own[place]]} or {categories[code]}"
            pairs.append(Pair(words, (name,), (own, changed)))
    if len(survey.names) > 1:
        pairs.append(Pair("all attributes", survey.names, (own, farthest)))
    if is_masked(account) and study.mate is not None:
        # The sums are the same; what differs between the two must not show in anything else.
        farthest_alone = {pair.names: pair for pair in reversed(pairs)}
        pairs += [
            pair._replace(words=f"{pair.words}, exchanged with another respondent", exchanged=True)
            for pair in reversed(farthest_alone.values())
        ]
    return tuple(pairs)


def _others(own: int, size: int, name: str, events: Sequence[PrivacyEvent]) -> list[int]:
    """The categories to tell the true one from: the farthest first."""
    for event in events:
        for part in event.events if isinstance(event, Composed) else (event,):
            if isinstance(part, Randomized) and part.attributes == (name,):
                randomizer = part.randomizer
                if (
                    isinstance(randomizer, MatrixRandomizer | KeepElseTable)
                    and randomizer.size == size
                ):
                    return [_most_different(own, randomizer)]
                return [size - 1 if own < size / 2 else 0]
    return sorted({0, size - 1} - {own}, key=lambda code: -abs(code - own))


def _most_different(own: int, randomizer: MatrixRandomizer | KeepElseTable) -> int:
    with np.errstate(divide="ignore", invalid="ignore"):
        laws = np.log(randomizer.matrix())
        apart = np.abs(laws - laws[own])
    largest = np.nan_to_num(apart, nan=0.0, posinf=1e300).max(axis=1)
    largest[own] = -1.0
    return int(np.argmax(largest))


def _probe(pair: Pair, sorts: Sequence[Trials], *, level: float, delta: float) -> Probe:
    """The attempt that proves most, against the largest bound of all."""
    bound = max(sort.bound for sort in sorts)
    best = Probe(pair=pair.words, bound=bound)
    for sort in sorts:
        taught = np.arange(len(sort.bits)) % 2 == 0
        guesses: list[tuple[Guess | None, bool]] = [
            (
                learned_guess(sort.columns, sort.ratios, sort.bits, taught, z=-float(ndtri(level))),
                True,
            )
        ]
        if sort.ratios is not None:
            guesses.append((declared_guess(sort.ratios), False))
        for guess, learned in guesses:
            if guess is None:
                continue
            tested = ~taught if learned else np.ones(len(taught), np.bool_)
            probe = _proved(guess, sort, tested, bound, level=level, delta=delta)
            probe = msgspec.structs.replace(probe, pair=pair.words, learned=learned)
            best = max(best, probe, key=lambda one: (one.lower, one.trials))
    return best


def _proved(
    guess: Guess,
    sort: Trials,
    tested: NDArray[np.bool_],
    bound: float,
    *,
    level: float,
    delta: float,
) -> Probe:
    bits, guesses = sort.bits[tested], guess.guesses[tested]
    counts = {
        (bit, side): int(((guesses == side) & (bits == bit)).sum())
        for bit in (False, True)
        for side in (-1, 1)
    }
    trials = {False: int((~bits).sum()), True: int(bits.sum())}
    right = counts[True, 1] + counts[False, -1]
    made = sum(counts.values())
    side = 1 if counts[True, 1] + counts[False, 1] >= made / 2 else -1
    spoken = side == 1
    if delta == 0.0:
        lower = epsilon_of_guesses(right, made, alpha=level)
    else:
        lower = max(
            epsilon_of_counts(
                (counts[one, way], counts[not one, way]),
                (trials[one], trials[not one]),
                alpha=level / 2,
                delta=delta,
            )
            for one, way in ((True, 1), (False, -1))
        )
    return Probe(
        pair="",
        bound=bound,
        lower=lower,
        event=guess.words,
        trials=int(tested.sum()),
        runs=sort.runs,
        guesses=made,
        right=right,
        first=clopper_pearson(counts[spoken, side], trials[spoken], alpha=level),
        second=clopper_pearson(counts[not spoken, side], trials[not spoken], alpha=level),
    )


def _excess(probe: Probe) -> float:
    if math.isinf(probe.bound):
        return -math.inf
    return probe.lower - probe.bound
