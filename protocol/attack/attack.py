"""The empirical audit: a lower bound on epsilon by attacking the view of an observer.

In many seeded runs on two neighbouring inputs, the attack guesses the input from the view. The
number of right guesses gives an exact lower bound on epsilon, to be compared with the upper bound
of the ledger. No variant needs code of its own for it.

The two inputs differ in one record: in each attribute alone, to the first and to the last category
or to the one with the most different reports by the declared matrix; and in all attributes
together. Where an exact sum is revealed, so that the ledger's bound is infinite, two respondents
exchange their records, which leaves every sum as it was.

Every pair of inputs is tried in whole runs, with the whole view, and in runs that many respondents
share, each with an input of her own: as parties of one respondent, as one of the respondents of a
party, and as rows of arrays if there are any. Findings there are sound even if respondents share
randomness. Only whole runs show what one party's messages reveal about another's record.

A sum of true answers with coins, or of reports, is bounded at a delta, with as many honest parties
as the observer leaves. At a delta, sums over so many parties are trials too, in runs in which all
others conspire. If only the sum is revealed, they are tried in place of single parties.

By default there are enough trials of every sort to exceed the ledger's bound if every guess is
right, if these runs have at most ``ENVELOPES`` envelopes.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from protocol.accounting.events import Composed, PrivacyEvent, Randomized
from protocol.attack.bounds import clopper_pearson, epsilon_of_counts, trials_to_exceed
from protocol.attack.probes import Probe, strongest_probe
from protocol.attack.row_trials import aligned_fields, rows_of_parties
from protocol.attack.sums import sums_of_honest
from protocol.attack.trials import (
    Pair,
    Study,
    Trials,
    draw_seeds,
    is_masked,
    many_parties,
    pair_bound,
    unmasked_loss,
    whole_runs,
)
from protocol.audit.coalition.coalition import Coalition, Observer, parse_coalition
from protocol.audit.ledger import Account, Ledger
from protocol.crypto.randomness import Stream, secret_of
from protocol.errors import ProtocolError, SurveyError, UnsupportedEventError
from protocol.messages import AGGREGATOR, PartyId
from protocol.randomizers.vetting import known, refusing
from protocol.session.roster import Roster
from protocol.session.variant import Variant
from protocol.simulation.mapping import Map, one_by_one
from protocol.simulation.rehearsal import Rehearsal
from protocol.simulation.setting import service_names
from protocol.surveys.records import Records

ALPHA = 1e-9
"""The largest probability that an attack accuses a variant with a right ledger."""

TRIALS = 1_000
"""Minimum number of trials when a trial is a whole party."""

ROW_TRIALS = 100_000
"""Minimum number of trials when each array row is a trial."""

CROWDS = 500
"""Minimum number of trials when a trial is a party of many respondents."""

EXCHANGES = 400
"""Minimum number of trials when a trial is two parties who exchange their records."""

RUNS = 200
"""Minimum number of trials when a trial is a whole run."""

ENVELOPES = 24_000
"""Most envelopes in the runs of one sort; if more are needed, only the minimum of trials is
made."""

ROWS = 1 << 16
"""Respondents per run when each array row is a trial."""

PARTIES = 8
"""Parties per run when a trial is a party."""

HELD = 64
"""Respondents per party when a trial is a party of many respondents."""

PILOTS = 8
"""Trials made first, to estimate the ledger's bound before the number of trials is decided."""

_SLACK = 1.1
_ATTEMPTS = 3
_SORTS = 4
"""The sorts of trials: whole runs, parties, parties of many respondents, and rows.

Where sums are revealed, at a delta, they are one sort more.
"""


class Attack(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an attack.

    Args:
        variant: the variant's name.
        observer: the members with the view that was attacked.
        target: the party with the record that differed.
        alpha: the largest probability of a false accusation over all pairs.
        delta: of the bounds; 0 for pure epsilon.
        rows: the arrays with a row per respondent; empty if there are none.
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
        """True if the variant reveals more than its ledger charges."""
        return any(probe.accused for probe in self.probes)

    @property
    def undecided(self) -> bool:
        """True if nothing is accused, but some pair has too few trials to prove a leak."""
        return not self.accused and any(probe.undecided for probe in self.probes)

    @property
    def worst(self) -> Probe:
        """The probe that exceeds its bound by most, or comes nearest to it."""
        return max(self.probes, key=_excess)


def _unheeded(done: int, total: int) -> None:
    pass


def attack(
    variant: Variant,
    records: Records,
    *,
    target: int = 0,
    observer: Observer | None = None,
    trials: int | None = None,
    runs: int | None = None,
    copies: int | None = None,
    alpha: float = ALPHA,
    delta: float = 0.0,
    seed: int = 1,
    carried: Map = one_by_one,
    progress: Callable[[int, int], object] = _unheeded,
) -> Attack:
    """Attack the view of an observer.

    Args:
        variant: the variant with its parameters.
        records: a respondent per party; a handful.
        target: place of the respondent with the record that differs.
        observer: a member, ``record`` for the holder of the transcript, or several together; by
            default all without records. If they do not see all envelopes there are only whole runs,
            as many as ``trials``.
        trials: number of respondents in shared runs, for each pair of inputs; by default 100,000 as
            rows of arrays, else at least 1,000 parties, and at least 400 couples who exchange their
            records.
        runs: number of whole runs, at most ``trials``; by default at least 200. It bounds the runs
            of parties next to rows, too.
        copies: number of respondents in a shared run; by default 65,536 as rows of arrays, else 8.
        alpha: the probability of a false accusation, over everything that is tried.
        delta: of the bounds on epsilon, in the ledger as well. Above 0, trials that share a run are
            taken to be independent.
        seed: decides everything.
        carried: carries out the runs, here or by workers; the result is the same.
        progress: called before each pair of inputs with the number done, and the number of all.

    Raises:
        ValueError: numbers out of range, or an observer that is the target.
        ProtocolError: the variant does not run.
    """
    if not 0 <= target < len(records):
        raise ValueError(f"target {target}: expected 0 to {len(records) - 1}")
    if min(2 if number is None else number for number in (runs, trials, copies)) < 2:
        raise ValueError("trials, runs and copies: expected at least 2")
    clopper_pearson(0, 1, alpha=alpha)
    epsilon_of_counts((0, 0), (1, 1), alpha=alpha, delta=delta)
    serving = Coalition((AGGREGATOR, *service_names(variant.roles)))
    study = Study(
        variant=variant,
        records=records,
        target=target,
        mate=None,
        observer=parse_coalition(serving if observer is None else observer),
        stream=Stream(secret_of(seed)).derive("attack"),
        delta=delta,
    )
    (number,) = draw_seeds(study.stream.derive("first"), 1)
    first = study.rehearse(records.codes.astype(np.int64), parties=len(records), seed=number)
    if first.failure is not None:
        raise first.failure
    plan = _planned(
        study, first, trials=trials, runs=runs, copies=copies, alpha=alpha, carried=carried
    )
    probes = []
    for done, pair in enumerate(plan.pairs):
        progress(done, len(plan.pairs))
        probes.append(plan.probe(pair))
    return Attack(
        variant=variant.name,
        observer=PartyId(str(study.observer)),
        target=first.charter.roster.parties[target],
        alpha=alpha,
        delta=delta,
        rows=plan.rows,
        probes=tuple(probes),
    )


class _Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Plan of the trials of each sort.

    Args:
        study: the study.
        first: a first run.
        ledger: of the observer in the first run.
        pairs: the pairs of inputs to distinguish.
        level: the probability of a false accusation in every single attempt.
        trials, runs, copies: as of ``attack``.
        rows: the arrays with a row per respondent.
        honest: the number of honest parties in sums that are trials; 0 without such sums.
        alone: True if only sums reveal something.
        carried: carries out the runs.
    """

    study: Study
    first: Rehearsal
    ledger: Ledger
    pairs: tuple[Pair, ...]
    level: float
    trials: int | None
    runs: int | None
    copies: int | None
    rows: tuple[str, ...]
    honest: int
    alone: bool
    carried: Map

    def probe(self, pair: Pair) -> Probe:
        """Attack a pair, unless the ledger has no bound on it."""
        study, parties = self.study, self.first.charter.roster.parties
        concerned = (study.target, study.mate) if pair.exchanged else (study.target,)
        names = [parties[place] for place in concerned if place is not None]
        bound = pair_bound(study, self.ledger, pair, names)
        if math.isinf(bound.epsilon):
            accounts = self.ledger.everybody
            losses = (accounts[p].loss for p in names if p in accounts)
            why = tuple(dict.fromkeys(r for loss in losses for r in loss.unbounded))
            return Probe(pair=pair.words, bound=bound.epsilon, unbounded=why)
        return strongest_probe(pair, self.pair_trials(pair), level=self.level, delta=study.delta)

    def pair_trials(self, pair: Pair) -> list[Trials]:
        def whole(study: Study, number: int) -> Trials:
            return whole_runs(study, pair, number, carried=carried)

        def parties(study: Study, number: int) -> Trials:
            return many_parties(study, pair, number, copies=beside, carried=carried)

        def crowds(study: Study, number: int) -> Trials:
            return many_parties(study, pair, number, copies=PARTIES, held=HELD, carried=carried)

        def sums(study: Study, number: int) -> Trials:
            return sums_of_honest(study, pair, number, honest=self.honest, carried=carried)

        study, carried = self.study, self.carried
        one = len(self.first.sent) / len(study.records)
        run, beside = one * len(study.records), self.copies or PARTIES
        if not study.observer.everything:
            return [self._enough_trials(whole, self.trials, TRIALS, each=run)]
        sorts = [self._enough_trials(whole, self.runs, RUNS, each=run, most=self.trials)]
        if pair.exchanged:
            return [*sorts, self._enough_trials(parties, self.trials, EXCHANGES, each=2 * one)]
        if self.honest:
            with contextlib.suppress(ValueError):
                # Some sums have masks that the record does not remove.
                each = self.honest * one
                sorts.append(self._enough_trials(sums, self.trials, TRIALS, each=each))
        if self.alone:
            return sorts
        rows = None
        if self.rows:
            many, copies = self.trials or ROW_TRIALS, self.copies or ROWS
            rows = rows_of_parties(
                study, pair, many, copies=copies, fields=self.rows, carried=carried
            )
            beside = PARTIES
        limits = [number for number in (self.trials, PARTIES * (self.runs or 0)) if number]
        most = min(limits, default=None)
        if rows is not None:
            sorts += [rows, self._enough_trials(parties, None, RUNS, each=one, most=most)]
        else:
            sorts.append(self._enough_trials(parties, self.trials, TRIALS, each=one))
        with contextlib.suppress(ProtocolError, ValueError):
            # In some variants a party has one respondent.
            sorts.append(self._enough_trials(crowds, None, CROWDS, each=one, most=most))
        return sorts

    def _enough_trials(
        self,
        make: Callable[[Study, int], Trials],
        given: int | None,
        least: int,
        *,
        each: float,
        most: int | None = None,
    ) -> Trials:
        """Trials of one sort: a given number, or enough to exceed the bound.

        Args:
            make: makes a number of trials.
            given: the number; None to determine it.
            least: the least number, also used if too many are needed.
            each: the number of envelopes of a trial.
            most: the largest number.
        """
        if given is None and most is not None and most <= least:
            given = most
        if given is not None:
            return make(self.study, given if most is None else min(given, most))
        trials = make(self._fresh_study("pilot"), PILOTS)
        for attempt in range(_ATTEMPTS):
            tested = trials_to_exceed(trials.bound, alpha=self.level, delta=self.study.delta)
            # Half of the trials teach.
            needed = 2 * _SLACK * tested
            number = max(least, math.ceil(needed)) if needed * each <= ENVELOPES else least
            number = number if most is None else min(number, most)
            if attempt and number <= len(trials.bits):
                break
            trials = make(self._fresh_study(f"attempt {attempt}"), number)
        return trials

    def _fresh_study(self, purpose: str) -> Study:
        """The study with other randomness, as earlier runs decide only the number of trials."""
        return msgspec.structs.replace(self.study, stream=self.study.stream.derive(purpose))


def _planned(
    study: Study,
    first: Rehearsal,
    *,
    trials: int | None,
    runs: int | None,
    copies: int | None,
    alpha: float,
    carried: Map,
) -> _Plan:
    """The plan of an attack, from a first run; the arguments are those of ``attack``."""
    roster = first.charter.roster
    party = roster.parties[study.target]
    _check_observer(study.observer, roster, party)
    study = msgspec.structs.replace(study, mate=_next_respondent(study, roster))
    ledger = first.ledger(study.observer)
    account = ledger.everybody.get(party)
    pairs = _pairs(study, account)
    honest = _honest(study, roster) if is_masked(account) else 0
    return _Plan(
        study=study,
        first=first,
        ledger=ledger,
        pairs=pairs,
        level=alpha / (2 * (_SORTS + bool(honest)) * len(pairs)),
        trials=trials,
        runs=runs,
        copies=copies,
        rows=aligned_fields(study, pairs[0]),
        honest=honest,
        alone=bool(honest) and not unmasked_loss(account),
        carried=carried,
    )


def _check_observer(observer: Coalition, roster: Roster, target: PartyId) -> None:
    try:
        observer.check(roster.position)
    except SurveyError as error:
        raise ValueError(f"observer {error}") from error
    if target in observer.insiders:
        raise ValueError(f"observer {target!r} is the target: expected another member")


def _honest(study: Study, roster: Roster) -> int:
    """Number of honest parties in the sums that the observer learns; 0 if those are not tried."""
    if not (study.delta and study.observer.everything):
        return 0
    return sum(name not in study.observer.insiders for name in roster.parties)


def _next_respondent(study: Study, roster: Roster) -> int | None:
    """The next respondent after the target who is not the observer."""
    n, target = len(roster.parties), study.target
    others = (place % n for place in range(target + 1, target + n))
    own = study.observer.insiders
    return next((place for place in others if roster.parties[place] not in own), None)


def _pairs(study: Study, account: Account | None) -> tuple[Pair, ...]:
    """Pairs to distinguish: each attribute alone, all of them, and exchanges if there are sums."""
    survey = study.records.survey
    own = study.records.codes[study.target].astype(np.int64)
    events = [charge.event for charge in account.trail] if account is not None else []
    pairs, farthest = [], own.copy()
    for place, name in enumerate(survey.names):
        others = _other_categories(int(own[place]), survey.sizes[place], name, events)
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
        # The sums are the same, so nothing else may differ.
        farthest_alone = {pair.names: pair for pair in reversed(pairs)}
        pairs += [
            pair._replace(words=f"{pair.words}, exchanged with another respondent", exchanged=True)
            for pair in reversed(farthest_alone.values())
        ]
    return tuple(pairs)


def _other_categories(own: int, size: int, name: str, events: Sequence[PrivacyEvent]) -> list[int]:
    """Categories to compare with the true one, the farthest first."""
    for event in events:
        for part in event.events if isinstance(event, Composed) else (event,):
            if isinstance(part, Randomized) and part.attributes == (name,):
                try:
                    randomizer = known(part.randomizer)
                    with refusing(randomizer):
                        if randomizer.size == size:
                            return [randomizer.farthest(own)]
                except UnsupportedEventError:
                    continue  # Its farthest category is unknown.
    return sorted({0, size - 1} - {own}, key=lambda code: -abs(code - own))


def _excess(probe: Probe) -> float:
    if math.isinf(probe.bound):
        return -math.inf
    return probe.lower - probe.bound
