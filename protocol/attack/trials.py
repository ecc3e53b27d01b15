"""Makes trials: runs of a variant on one of two inputs each, and what an observer sees of them.

Which of the two a trial has is drawn by a fair coin of its own. There are two sorts here: whole
runs, in which everything that the observer sees is looked at, and many parties in one run, of whom
each is a trial and what it says is looked at. Rows of arrays are in ``protocol.attack.rows``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.accounting.accountants import PureAccountant, total
from protocol.accounting.events import Masked, PrivacyEvent, Public, replaced, single_events
from protocol.attack.columns import Codes, columns_of, facts_of, matrices_of
from protocol.attack.declared import Floats, log_ratios
from protocol.attack.observer import Observation, observation_of, observations_of
from protocol.audit.ledger import Account, Ledger
from protocol.crypto.randomness import WORDS, Stream
from protocol.messages import PartyId
from protocol.session.variant import Variant
from protocol.simulation.rehearsal import Rehearsal
from protocol.simulation.setting import setting_of
from protocol.surveys.records import Records

TARGET, MATE = "target", "mate"


class Pair(NamedTuple):
    """Two neighbouring inputs.

    Args:
        words: how they differ.
        names: the attributes in which the two records differ.
        records: (m,) codes under the first and the second input.
        exchanged: the target and another respondent have one of the records each, and exchange
            them; else the target alone has one or the other.
    """

    words: str
    names: tuple[str, ...]
    records: tuple[Codes, Codes]
    exchanged: bool = False


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """What is attacked.

    Args:
        records: a respondent per party.
        target: whose record differs.
        mate: with whom the target exchanges records; None if the target is alone.
        observer: whose view it is.
        stream: draws inputs and seeds.
    """

    variant: Variant
    records: Records
    target: int
    mate: int | None
    observer: PartyId
    stream: Stream

    def rehearse(self, codes: Codes, *, parties: int, seed: Stream) -> Rehearsal:
        """One run on these records; a run that fails is a run."""
        records = Records(self.records.survey, codes)
        number = int.from_bytes(seed.bytes(8), "little")
        return Rehearsal(setting_of(self.variant, records, seed=number, parties=parties))


class Trials(NamedTuple):
    """Views of many trials.

    Args:
        sort: what a trial is.
        bits: (n,) whether a trial had the second input.
        columns: by name, (n,) each.
        ratios: (n,) what the declared laws say for the second input, in nats; None if nothing.
        bound: what the ledger says at most, of any of them.
        runs: how many runs they come from.
    """

    sort: str
    bits: NDArray[np.bool_]
    columns: Mapping[str, Codes]
    ratios: Floats | None
    bound: float
    runs: int


def bound_of(ledger: Ledger, pair: Pair, parties: Sequence[PartyId]) -> float:
    """What the ledger says that a pair of inputs can be told apart by, in nats.

    Exact sums are the same if two respondents exchange their records, so what counts of an exchange
    is all that they tell beside what is masked.

    Args:
        parties: the target, and with an exchange the other one.
    """
    accounts = [ledger.accounts[party] for party in parties if party in ledger.accounts]
    if pair.exchanged:
        return sum((_unmasked_loss(account) for account in accounts), 0.0)
    if len(pair.names) == 1:
        return max((a.loss.attributes.get(pair.names[0], 0.0) for a in accounts), default=0.0)
    return max((a.loss.record for a in accounts), default=0.0)


def is_masked(account: Account | None) -> bool:
    """Whether a trail has an exact sum in it."""
    trail = () if account is None else account.trail
    return any(isinstance(part, Masked) for c in trail for part in single_events(c.event))


def unmasked(event: PrivacyEvent) -> PrivacyEvent:
    """An event without what an exact sum tells."""
    return replaced(event, lambda part: Public() if isinstance(part, Masked) else part)


def _unmasked_loss(account: Account) -> float:
    accountant = PureAccountant()
    return total(accountant.judge(unmasked(charge.event)) for charge in account.trail).record


def whole_runs(study: Study, pair: Pair, runs: int) -> Trials:
    """Trials that are whole runs: everybody else has the record that the study gives."""
    drawn = study.stream.derive(f"runs {pair.words}")
    bits = drawn.bernoulli(WORDS // 2, runs)
    seeds = drawn.derive("seeds")
    observations, ratios, bound = [], np.zeros(runs), 0.0
    for place, bit in enumerate(bits.tolist()):
        codes = study.records.codes.astype(np.int64)
        codes[study.target] = pair.records[bit]
        concerned = [study.target]
        if pair.exchanged and study.mate is not None:
            codes[study.mate] = pair.records[1 - bit]
            concerned.append(study.mate)
        run = study.rehearse(codes, parties=len(codes), seed=seeds)
        concerned_parties = [run.charter.roster.parties[respondent] for respondent in concerned]
        labels = {name: str(name) for name, _ in run.charter.roster.members}
        labels.update(zip(concerned_parties, (TARGET, MATE), strict=False))
        observation = observation_of(run, study.observer, labels)
        ledger = run.ledger(study.observer)
        bound = max(bound, bound_of(ledger, pair, concerned_parties))
        if not pair.exchanged:
            ratios[place] = ratios_of(observation, ledger, concerned_parties[0], study, pair, 1)[0]
        observations.append(observation)
    law = ratios if ratios.any() else None
    return Trials("whole runs", bits, _columns(observations), law, bound, runs)


def many_parties(study: Study, pair: Pair, trials: int, *, copies: int, held: int = 1) -> Trials:
    """Trials that are parties, or couples of them: ``copies`` parties a run.

    Args:
        held: how many respondents each party speaks for. The first has one of the two records; the
            others have the same ones in every trial. More than one shows what becomes of a whole
            party's messages, such as their order, and goes with no exchange.
    """
    drawn = study.stream.derive(f"parties of {held} {pair.words}")
    seeds = drawn.derive("seeds")
    each = 2 if pair.exchanged else 1
    copies = -(-max(min(copies, each * trials), study.variant.quorum_of(2), 2) // each)
    runs = -(-trials // copies)
    bits = drawn.bernoulli(WORDS // 2, (runs, copies))
    survey = study.records.survey
    others = drawn.derive("others").integers(np.array(survey.sizes), (held - 1, len(survey.sizes)))
    observations, ratios, bound = [], np.zeros(runs * copies), 0.0
    both = np.stack(pair.records)
    for number in range(runs):
        had = bits[number].astype(np.int64)
        chosen = np.stack([had, 1 - had], axis=1)[:, :each].reshape(-1)
        holdings = np.empty((len(chosen), held, both.shape[1]), np.int64)
        holdings[:, 0] = both[chosen]
        holdings[:, 1:] = others
        codes = holdings.reshape(-1, both.shape[1])
        run = study.rehearse(codes, parties=len(chosen), seed=seeds)
        ledger = run.ledger(study.observer)
        roster = run.charter.roster.parties
        targets = [roster[each * place : each * (place + 1)] for place in range(copies)]
        labels = [dict(zip(parties, (TARGET, MATE), strict=False)) for parties in targets]
        seen = observations_of(run, study.observer, labels)
        for place, (parties, observation) in enumerate(zip(targets, seen, strict=True)):
            bound = max(bound, bound_of(ledger, pair, parties))
            if not pair.exchanged:
                one = ratios_of(observation, ledger, parties[0], study, pair, held)
                ratios[number * copies + place] = one[0]
            observations.append(observation)
    law = ratios if ratios.any() else None
    sort = "couples" if pair.exchanged else "parties" if held == 1 else f"parties of {held}"
    return Trials(sort, bits.reshape(-1), _columns(observations), law, bound, runs)


def ratios_of(
    observation: Observation, ledger: Ledger, party: PartyId, study: Study, pair: Pair, held: int
) -> Floats:
    """What a party's messages say by their declared laws, (held,)."""
    summed = np.zeros(held)
    account = ledger.accounts.get(party)
    if account is None:
        return summed
    events = {charge.seq: charge.event for charge in account.trail}
    for name, (sender, seq) in observation.slots.items():
        event = events.get(seq)
        if sender != party or event is None:
            continue
        ratios = log_ratios(observation.messages[name], event, study.records.survey, pair.records)
        if ratios is not None and len(ratios) == held:
            summed += ratios
    return summed


def _columns(observations: Sequence[Observation]) -> dict[str, Codes]:
    matrices = matrices_of(observations)
    own = [name for name in matrices if name.startswith((f"{TARGET}'s ", f"{MATE}'s "))]
    return {**facts_of(observations), **columns_of(matrices, related=own)}
