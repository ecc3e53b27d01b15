"""Trials: runs of a variant on one of two inputs each, with the view of an observer.

The input of a trial is drawn by a fair coin. There are two sorts here: whole runs, with all that
the observer sees, and many parties in one run, each a trial with its messages. Rows of arrays are
in ``protocol.attack.row_trials``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.accounting.accountants import PureAccountant, total
from protocol.accounting.composition import ExactAccountant
from protocol.accounting.events import Masked, Merged, PrivacyEvent, Public, layers, replaced
from protocol.attack.columns import (
    Codes,
    View,
    element_columns,
    make_view,
    plain_facts,
    view_matrices,
)
from protocol.attack.declared import log_ratios
from protocol.attack.observer import Observation, observe, observe_trials
from protocol.audit.at_delta import composed
from protocol.audit.coalition.coalition import Coalition
from protocol.audit.ledger import Account, Ledger
from protocol.crypto.randomness import WORDS, Stream
from protocol.errors import UnsupportedEventError
from protocol.messages import PartyId
from protocol.randomizers.exact import Floats
from protocol.session.variant import Variant, settled
from protocol.simulation.mapping import Map, chunks, one_by_one
from protocol.simulation.rehearsal import Rehearsal
from protocol.simulation.setting import make_setting
from protocol.surveys.records import Records

TARGET, MATE = "target", "mate"

RUNS_AT_ONCE = 8
"""The runs of a chunk. Each takes a few milliseconds, and handing over a chunk about one."""


class Pair(NamedTuple):
    """Two neighbouring inputs.

    Args:
        words: their difference.
        names: the attributes in which the two records differ.
        records: (m,) codes under the first and the second input.
        exchanged: whether the target and another respondent have one of the records each, and
            exchange them; else the target alone has one or the other.
    """

    words: str
    names: tuple[str, ...]
    records: tuple[Codes, Codes]
    exchanged: bool = False


def distant_pair(words: str, records: Records, *, exchanged: bool = False) -> Pair:
    """The first record, and one far from it in every attribute."""
    own = records.codes[0].astype(np.int64)
    sizes = np.array(records.survey.sizes)
    other = np.where(own < sizes / 2, sizes - 1, 0)
    return Pair(words, records.survey.names, (own, other), exchanged)


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """Variant, records and observer of an attack.

    Args:
        records: a respondent per party.
        target: place of the respondent with the record that differs.
        mate: place of the respondent that exchanges records with the target; None without one.
        observer: members with their keys, together.
        stream: draws inputs and seeds.
        delta: of the bounds on epsilon; 0 for pure epsilon.
    """

    variant: Variant
    records: Records
    target: int
    mate: int | None
    observer: Coalition
    stream: Stream
    delta: float = 0.0

    def rehearse(self, codes: Codes, *, parties: int, seed: int) -> Rehearsal:
        """One run on these records, which may fail."""
        records = Records(self.records.survey, codes)
        return Rehearsal(make_setting(self.variant, records, seed=seed, parties=parties))


class Bound(NamedTuple):
    """A ledger's upper bound.

    Args:
        epsilon: in nats.
        honest: number of honest parties in a sum that it assumes; 0 if it holds whoever else
            conspires.
    """

    epsilon: float
    honest: int


NOTHING_TOLD = Bound(0.0, 0)


class Trials(NamedTuple):
    """Views of many trials.

    Args:
        sort: the kind of trial, in words.
        bits: (n,) whether a trial had the second input.
        columns: by name, (n,) each.
        ratios: (n,) log likelihood ratios of the second input by the declared laws; None if all 0.
        bound: the ledger's largest bound on any of them, in nats.
        runs: number of runs with these trials.
        honest: as in ``Bound``.
    """

    sort: str
    bits: NDArray[np.bool_]
    columns: Mapping[str, Codes]
    ratios: Floats | None
    bound: float
    runs: int
    honest: int = 0


def pair_bound(study: Study, ledger: Ledger, pair: Pair, parties: Sequence[PartyId]) -> Bound:
    """The ledger's bound on epsilon for a pair of inputs.

    It is the pure figure, or the one at the study's delta if that is less. An exchange of records
    leaves exact sums as they are, so only unmasked events count for it.

    Args:
        parties: the target, and with an exchange the other one.
    """
    known = ledger.everybody
    accounts = [known[party] for party in parties if party in known]
    if pair.exchanged:
        return Bound(sum((unmasked_loss(account) for account in accounts), 0.0), 0)
    attribute = pair.names[0] if len(pair.names) == 1 else None
    found = []
    for account in accounts:
        loss = account.loss
        pure = loss.record if attribute is None else loss.attributes.get(attribute, 0.0)
        bound = Bound(pure, 0)
        # A party that has not signed may have sent more than is on record.
        if study.delta and pure and account.party not in ledger.unsigned:
            at_delta = _bound_at_delta(study, account, attribute)
            if at_delta is not None and at_delta.epsilon < pure:
                bound = at_delta
        found.append(bound)
    return max(found, default=NOTHING_TOLD)


def _bound_at_delta(study: Study, account: Account, attribute: str | None) -> Bound | None:
    """The figure of one account; None if one of its events has none."""
    accountant, apart = _accountant(study.delta), settled(study.variant)
    try:
        found = composed(accountant, account, settled=apart, attribute=attribute)
    except UnsupportedEventError:
        return None
    return Bound(found.epsilon, found.honest)


@functools.lru_cache(maxsize=4)
def _accountant(delta: float) -> ExactAccountant:
    return ExactAccountant(delta)


def is_masked(account: Account | None) -> bool:
    """True if a trail has an event that is masked or merged."""
    trail = () if account is None else account.trail
    return any(isinstance(part, Masked | Merged) for c in trail for part in layers(c.event))


def unmasked(event: PrivacyEvent) -> PrivacyEvent:
    """An event without its masked and merged parts."""
    return replaced(event, lambda part: Public() if isinstance(part, Masked | Merged) else part)


def unmasked_loss(account: Account | None) -> float:
    """The pure figure of a trail without masked and merged parts."""
    accountant, trail = PureAccountant(), () if account is None else account.trail
    return total(accountant.judge(unmasked(charge.event)) for charge in trail).record


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """Some runs, to be made here or by a worker.

    Args:
        study, pair: of the attack.
        bits: whether a trial has the second input, (runs,) or (runs, trials of each).
        seeds: of the runs.
        others: (held - 1, m) the other records of a party; None in runs that are trials as a whole.
    """

    study: Study
    pair: Pair
    bits: NDArray[np.bool_]
    seeds: list[int]
    others: Codes | None = None


class Seen(msgspec.Struct, frozen=True):
    """Observations of a chunk of runs.

    Args:
        views: of its trials, in order.
        ratios: log likelihood ratios of the second input by the declared laws, in nats.
        bound: the ledger's largest bound on any of them.
    """

    views: list[View]
    ratios: list[float]
    bound: Bound


def draw_seeds(stream: Stream, runs: int) -> list[int]:
    """A seed of each run."""
    seeds: list[int] = stream.words(runs).tolist()
    return seeds


def carried_out(sort: str, kernel: Callable[[Chunk], Seen], whole: Chunk, carried: Map) -> Trials:
    """The trials of all runs, which are made chunk by chunk."""
    runs = len(whole.seeds)
    parts = [
        msgspec.structs.replace(whole, bits=whole.bits[part], seeds=whole.seeds[part])
        for part in chunks(runs, RUNS_AT_ONCE)
    ]
    seen = carried(kernel, parts)
    views = [view for part in seen for view in part.views]
    ratios = np.array([ratio for part in seen for ratio in part.ratios])
    matrices = view_matrices(views)
    own = [name for name in matrices if name.startswith((f"{TARGET}'s ", f"{MATE}'s "))]
    columns = {**plain_facts(views), **element_columns(matrices, related=own)}
    law = ratios if ratios.any() else None
    bound = max((part.bound for part in seen), default=NOTHING_TOLD)
    return Trials(
        sort, whole.bits.reshape(-1), columns, law, bound.epsilon, runs, honest=bound.honest
    )


def whole_runs(study: Study, pair: Pair, runs: int, *, carried: Map = one_by_one) -> Trials:
    """Trials that are whole runs, with the study's records for everybody else."""
    drawn = study.stream.derive(f"runs {pair.words}")
    bits = drawn.bernoulli(WORDS // 2, runs)
    seeds = draw_seeds(drawn.derive("seeds"), runs)
    chunk = Chunk(study=study, pair=pair, bits=bits, seeds=seeds)
    return carried_out("whole runs", seen_in_whole_runs, chunk, carried)


def seen_in_whole_runs(chunk: Chunk) -> Seen:
    """Each run is a trial."""
    study, pair = chunk.study, chunk.pair
    views, ratios, bound = [], [], NOTHING_TOLD
    for bit, seed in zip(chunk.bits.tolist(), chunk.seeds, strict=True):
        codes = study.records.codes.astype(np.int64)
        codes[study.target] = pair.records[bit]
        concerned = [study.target]
        if pair.exchanged and study.mate is not None:
            codes[study.mate] = pair.records[1 - bit]
            concerned.append(study.mate)
        run = study.rehearse(codes, parties=len(codes), seed=seed)
        concerned_parties = [run.charter.roster.parties[respondent] for respondent in concerned]
        labels = {name: str(name) for name, _ in run.charter.roster.members}
        labels.update(zip(concerned_parties, (TARGET, MATE), strict=False))
        observation = observe(run, study.observer, labels)
        ledger = run.ledger(study.observer)
        bound = max(bound, pair_bound(study, ledger, pair, concerned_parties))
        ratios.append(_first_ratio(observation, ledger, concerned_parties[0], run, pair, 1))
        views.append(make_view(observation))
    return Seen(views, ratios, bound)


def many_parties(
    study: Study,
    pair: Pair,
    trials: int,
    *,
    copies: int,
    held: int = 1,
    carried: Map = one_by_one,
) -> Trials:
    """Trials that are parties, or couples of them, ``copies`` parties a run.

    Args:
        held: number of respondents of each party. The first has one of the two records; the others
            have the same ones in every trial. More than one shows properties of a whole party's
            messages, such as their order; not with an exchange.
        carried: carries out the runs.
    """
    drawn = study.stream.derive(f"parties of {held} {pair.words}")
    each = 2 if pair.exchanged else 1
    copies = -(-max(min(copies, each * trials), study.variant.quorum_of(2), 2) // each)
    runs = -(-trials // copies)
    bits = drawn.bernoulli(WORDS // 2, (runs, copies))
    sizes = np.array(study.records.survey.sizes)
    chunk = Chunk(
        study=study,
        pair=pair,
        bits=bits,
        seeds=draw_seeds(drawn.derive("seeds"), runs),
        others=drawn.derive("others").integers(sizes, (held - 1, len(sizes))).astype(np.int64),
    )
    sort = "parties" if held == 1 else f"parties of {held}"
    if pair.exchanged:
        sort = "couples"
    return carried_out(sort, seen_of_parties, chunk, carried)


def seen_of_parties(chunk: Chunk) -> Seen:
    """Each party of a run is a trial, or each couple of them."""
    study, pair, others = chunk.study, chunk.pair, chunk.others
    assert others is not None
    each, held = 2 if pair.exchanged else 1, 1 + len(others)
    views, ratios, bound = [], [], NOTHING_TOLD
    both = np.stack(pair.records)
    for bits, seed in zip(chunk.bits, chunk.seeds, strict=True):
        had = bits.astype(np.int64)
        chosen = np.stack([had, 1 - had], axis=1)[:, :each].reshape(-1)
        holdings = np.empty((len(chosen), held, both.shape[1]), np.int64)
        holdings[:, 0] = both[chosen]
        holdings[:, 1:] = others
        codes = holdings.reshape(-1, both.shape[1])
        run = study.rehearse(codes, parties=len(chosen), seed=seed)
        ledger = run.ledger(study.observer)
        roster = run.charter.roster.parties
        targets = [roster[each * place : each * (place + 1)] for place in range(len(had))]
        labels = [dict(zip(parties, (TARGET, MATE), strict=False)) for parties in targets]
        seen = observe_trials(run, study.observer, labels)
        for parties, observation in zip(targets, seen, strict=True):
            bound = max(bound, pair_bound(study, ledger, pair, parties))
            ratios.append(_first_ratio(observation, ledger, parties[0], run, pair, held))
            views.append(make_view(observation))
    return Seen(views, ratios, bound)


def _first_ratio(
    observation: Observation, ledger: Ledger, party: PartyId, run: Rehearsal, pair: Pair, held: int
) -> float:
    """Log ratio of a party's first respondent; 0 for an exchange."""
    if pair.exchanged:
        return 0.0
    return float(message_ratios(observation, ledger, party, run, pair, held)[0])


def message_ratios(
    observation: Observation, ledger: Ledger, party: PartyId, run: Rehearsal, pair: Pair, held: int
) -> Floats:
    """Log ratios of a party's messages by their declared laws, (held,)."""
    summed = np.zeros(held)
    account = ledger.everybody.get(party)
    if account is None:
        return summed
    events = {charge.seq: charge.event for charge in account.trail}
    for name, (sender, seq) in observation.slots.items():
        event = events.get(seq)
        if sender != party or event is None:
            continue
        variant = run.charter.variant
        ratios = log_ratios(observation.messages[name], event, variant, pair.records)
        if ratios is not None and len(ratios) == held:
            summed += ratios
    return summed
