"""Makes trials: runs of a variant on one of two inputs each, and what an observer sees of them.

Which of the two a trial has is drawn by a fair coin of its own. There are two sorts: whole runs, in
which everything that the observer sees is looked at, and many respondents in one run, of whom each
is a trial and what her party says is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.errors import ProtocolError
from protocol.messages import AGGREGATOR, RECORD, PartyId
from protocol.privacy.accountants import PureAccountant, total
from protocol.privacy.attack_events import Floats, log_ratios
from protocol.privacy.attack_views import (
    Codes,
    Matrix,
    View,
    as_codes,
    columns_of,
    facts_of,
    matrices_of,
    view_of,
    views_of,
)
from protocol.privacy.events import Composed, Masked, OneOf, PrivacyEvent, Public
from protocol.privacy.ledger import Account, Ledger
from protocol.randomness import WORDS, Stream
from protocol.records import Records
from protocol.rehearsal import Rehearsal
from protocol.setting import setting_of
from protocol.variant import Variant

TARGET, MATE = "target", "mate"

ROW_ELEMENTS = 256
"""How many elements of a row are looked at."""

_WIDEST = 62
# With more than 8 rows no two widths of packed rows take equally many octets.
_FEW, _MORE, _ROW = 11, 13, 2


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
        mate: with whom the target exchanges records; None if there is nobody.
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
        records = Records.from_codes(self.records.survey, codes)
        number = int.from_bytes(seed.bytes(8), "little")
        return Rehearsal(setting_of(self.variant, records, seed=number, parties=parties))


class Trials(NamedTuple):
    """Views of many trials.

    Args:
        bits: (n,) whether a trial had the second input.
        columns: by name, (n,) each.
        ratios: (n,) what the declared laws say for the second input, in nats; None if nothing.
        bound: what the ledger says at most, of any of them.
        runs: how many runs they come from.
    """

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
    return account is not None and any(unmasked(c.event) != c.event for c in account.trail)


def unmasked(event: PrivacyEvent) -> PrivacyEvent:
    """An event without what an exact sum tells."""
    match event:
        case Masked():
            return Public()
        case Composed(events):
            return Composed(tuple(map(unmasked, events)))
        case OneOf(events):
            return OneOf(tuple(map(unmasked, events)))
        case _:
            return event


def _unmasked_loss(account: Account) -> float:
    accountant = PureAccountant()
    return total(accountant.judge(unmasked(charge.event)) for charge in account.trail).record


def whole_runs(study: Study, pair: Pair, runs: int) -> Trials:
    """Trials that are whole runs: everybody else has the record that the study gives."""
    drawn = study.stream.derive(f"runs {pair.words}")
    bits = drawn.bernoulli(WORDS // 2, runs)
    seeds = drawn.derive("seeds")
    views, ratios, bound = [], np.zeros(runs), 0.0
    for place, bit in enumerate(bits.tolist()):
        codes = study.records.codes.astype(np.int64)
        codes[study.target] = pair.records[bit]
        concerned = [study.target]
        if pair.exchanged and study.mate is not None:
            codes[study.mate] = pair.records[1 - bit]
            concerned.append(study.mate)
        run = study.rehearse(codes, parties=len(codes), seed=seeds)
        told = [run.charter.roster.parties[respondent] for respondent in concerned]
        labels = {name: str(name) for name, _ in run.charter.roster.members}
        labels.update(zip(told, (TARGET, MATE), strict=False))
        view = view_of(run, study.observer, labels)
        ledger = run.ledger(study.observer)
        bound = max(bound, bound_of(ledger, pair, told))
        if not pair.exchanged:
            ratios[place] = _ratios(view, ledger, told[0], study, pair, 1)[0]
        views.append(view)
    return Trials(bits, _columns(views), ratios if ratios.any() else None, bound, runs)


def many_parties(study: Study, pair: Pair, trials: int, *, copies: int) -> Trials:
    """Trials that are parties of one respondent, or couples of them: ``copies`` parties a run."""
    drawn = study.stream.derive(f"parties {pair.words}")
    seeds = drawn.derive("seeds")
    each = 2 if pair.exchanged else 1
    copies = -(-max(copies, study.variant.quorum, 2) // each)
    runs = -(-trials // copies)
    bits = drawn.bernoulli(WORDS // 2, (runs, copies))
    views, ratios, bound = [], np.zeros(runs * copies), 0.0
    both = np.stack(pair.records)
    for number in range(runs):
        had = bits[number].astype(np.int64)
        chosen = np.stack([had, 1 - had], axis=1)[:, :each].reshape(-1)
        run = study.rehearse(both[chosen], parties=len(chosen), seed=seeds)
        ledger = run.ledger(study.observer)
        roster = run.charter.roster.parties
        told = [roster[each * place : each * (place + 1)] for place in range(copies)]
        labels = [dict(zip(parties, (TARGET, MATE), strict=False)) for parties in told]
        seen = views_of(run, study.observer, labels)
        for place, (parties, view) in enumerate(zip(told, seen, strict=True)):
            bound = max(bound, bound_of(ledger, pair, parties))
            if not pair.exchanged:
                law = _ratios(view, ledger, parties[0], study, pair, 1)
                ratios[number * copies + place] = law[0]
            views.append(view)
    flat = bits.reshape(-1)
    return Trials(flat, _columns(views), ratios if ratios.any() else None, bound, runs)


def rows_of_parties(
    study: Study, pair: Pair, trials: int, *, copies: int, fields: tuple[str, ...]
) -> Trials | None:
    """Trials that are respondents of large parties, a row of their party's arrays each.

    It is None if some party does not send these arrays, whatever its reason.

    Args:
        copies: the most rows of one run.
        fields: the arrays with a row per respondent, as ``aligned_fields`` found them.
    """
    drawn = study.stream.derive(f"rows {pair.words}")
    seeds = drawn.derive("seeds")
    parties = max(study.variant.quorum, 2)
    runs = -(-trials // max(copies, parties))
    held = -(-trials // (runs * parties))
    bits = drawn.bernoulli(WORDS // 2, (runs, parties, held))
    parts: dict[str, list[Matrix]] = {field: [] for field in fields}
    ratios, bound = np.zeros(bits.shape), 0.0
    dtype = study.records.survey.dtype
    first, second = (record.astype(dtype) for record in pair.records)
    for number in range(runs):
        flat = bits[number].reshape(-1)
        codes = np.where(flat[:, np.newaxis], second, first)
        run = study.rehearse(codes, parties=parties, seed=seeds)
        ledger = run.ledger(study.observer)
        for place, party in enumerate(run.charter.roster.parties):
            view = view_of(run, study.observer, {party: TARGET})
            found = _rows(view, held, fields)
            if found.keys() != set(fields):
                return None
            for name, matrix in found.items():
                parts[name].append(matrix)
            ratios[number, place] = _ratios(view, ledger, party, study, pair, held)
            bound = max(bound, bound_of(ledger, pair, (party,)))
    matrices = {
        name: Matrix(np.concatenate([part.values for part in found]), found[0].bits)
        for name, found in parts.items()
    }
    columns = columns_of(matrices, related=matrices)
    told = ratios.reshape(-1)
    return Trials(bits.reshape(-1), columns, told if told.any() else None, bound, runs)


def aligned_fields(study: Study, pair: Pair) -> tuple[str, ...]:
    """The arrays of a party that hold a row of each of its respondents; none if there are none.

    Such an array is as long as there are respondents, however many these are, and with one
    record changed and all randomness kept no other row of it changes.
    """
    if study.observer not in (AGGREGATOR, RECORD):
        return ()
    parties = max(study.variant.quorum, 2)
    seeds = [study.stream.derive("aligned") for _ in range(3)]
    views = []
    try:
        for held, changed, seed in zip(
            (_FEW, _MORE, _FEW), (False, False, True), seeds, strict=True
        ):
            codes = np.tile(pair.records[0], (parties * held, 1))
            if changed:
                codes[_ROW] = pair.records[1]
            run = study.rehearse(codes, parties=parties, seed=seed)
            if run.failure is not None:
                return ()
            views.append(view_of(run, study.observer, {run.charter.roster.parties[0]: TARGET}))
    except (ProtocolError, ValueError):
        return ()
    few, more, other = (
        _rows(view, held, None) for view, held in zip(views, (_FEW, _MORE, _FEW), strict=True)
    )
    rest = np.arange(_FEW) != _ROW
    return tuple(
        name
        for name in few
        if name in more
        and name in other
        and np.array_equal(few[name].values[rest], other[name].values[rest])
    )


def _rows(view: View, held: int, fields: Sequence[str] | None) -> dict[str, Matrix]:
    """The arrays of a view with so many rows, or with as many groups of bits."""
    found = {}
    for name, message in view.messages.items():
        for field in message.__struct_fields__:
            value = getattr(message, field)
            if not isinstance(value, np.ndarray) or value.ndim < 1:
                continue
            key = f"{name}.{field}"
            width = _packed_width(value, held)
            if len(value) == held:
                flat = value.reshape(held, -1)[:, :ROW_ELEMENTS]
                matrix = Matrix(as_codes(flat), 8 * value.dtype.itemsize)
            elif width:
                key = f"{key} in groups of {width} bits"
                matrix = Matrix(_unpacked(value, held, width), width)
            else:
                continue
            if fields is None or key in fields:
                found[key] = matrix
    return found


def _packed_width(value: NDArray[np.generic], held: int) -> int:
    """How many bits each of so many rows has, if these are packed in octets; 0 if they are not."""
    if value.dtype != np.uint8 or value.ndim != 1 or not held:
        return 0
    width = min(8 * len(value) // held, _WIDEST)
    return width if -(-held * width // 8) == len(value) else 0


def _unpacked(octets: NDArray[np.uint8], held: int, width: int) -> Codes:
    """Every row's bits as one number, the first bit the highest."""
    bits = np.unpackbits(octets, count=held * width).reshape(held, width)
    numbers: Codes = bits.astype(np.int64) @ (np.int64(1) << np.arange(width, dtype=np.int64)[::-1])
    return numbers[:, np.newaxis]


def _ratios(
    view: View, ledger: Ledger, party: PartyId, study: Study, pair: Pair, held: int
) -> Floats:
    """What a party's messages say by their declared laws, (held,)."""
    told = np.zeros(held)
    account = ledger.accounts.get(party)
    if account is None:
        return told
    events = {charge.seq: charge.event for charge in account.trail}
    for name, (sender, seq) in view.slots.items():
        event = events.get(seq)
        if sender != party or event is None:
            continue
        ratios = log_ratios(view.messages[name], event, study.records.survey, pair.records)
        if ratios is not None and len(ratios) == held:
            told += ratios
    return told


def _columns(views: Sequence[View]) -> dict[str, Codes]:
    matrices = matrices_of(views)
    own = [name for name in matrices if name.startswith((f"{TARGET}'s ", f"{MATE}'s "))]
    return {**facts_of(views), **columns_of(matrices, related=own)}
