"""The result that a variant is expected to publish if the answers have assumed shares.

A variant's estimator computes its own errors, so an error is predicted from the expected counts.
These are whole numbers of very many reports, such that rounding does not matter. The number of
coins in counts does not depend on the number of respondents, so they have an estimate of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from protocol.crypto.randomness import WORDS
from protocol.estimators.counts import Counts
from protocol.estimators.linear import LinearEstimate
from protocol.estimators.releases.noisy import NoisyTables
from protocol.messages import Message
from protocol.randomizers import Randomizer
from protocol.randomizers.exact import Floats
from protocol.randomizers.keyvalue import SYMBOLS
from protocol.randomizers.mixing import Mixing
from protocol.session.variant import Variant
from protocol.variants.keyvalue.estimate import fakes_after
from protocol.variants.keyvalue.moments import symbol_laws
from protocol.variants.keyvalue.privkv import KeyValueCollection, SymbolCounts
from protocol.variants.marginals import variant as marginals
from protocol.variants.marginals.variant import MarginalRelease
from protocol.variants.numeric.numeric_mean import NumericMean
from protocol.variants.oracles.attributes import AttributeOracles, AttributeTallies, Smp, Spl
from protocol.variants.oracles.fake_data import RsFd
from protocol.variants.reports import oracle
from protocol.variants.reports.reports import Blockwise, Pooled
from protocol.variants.rrba.blocks import Running
from protocol.variants.rrba.rrba import RRBA, Released
from protocol.variants.sums.pair_rr import PairRR
from protocol.variants.sums.tallies import Counted, Tallied, Tally
from scenarios.designing.assumed import Alike, Shares

REPORTS = 2**40
"""Number of reports behind expected counts, such that sums of a tally's signs fit 64 bits."""

Whole = NDArray[np.int64]


def expected(variant: Variant, names: Sequence[str], shares: Shares) -> Message | None:
    """Expected publication of ``REPORTS`` respondents, as far as one table goes.

    Args:
        names: the attributes of the table. What says nothing of them is made up.
        shares: assumed shares of the answers.

    Returns:
        As ``Variant.estimate`` takes it; None if it cannot be said without a run.
    """
    match variant:
        case Blockwise() if _inherits(variant, Blockwise, "answer", "pooled", "estimate"):
            return _expected_pool(variant, names, shares)
        case oracle.FrequencyOracle() if _inherits(
            variant, oracle.FrequencyOracle, "answer", "pooled"
        ):
            answers = shares.margin(variant.survey.names).reshape(-1)
            return oracle.Tallied(REPORTS, _tally(variant.randomizer, answers, REPORTS))
        case Spl() | Smp() | RsFd():
            return _attribute_tallies(variant, shares)
        case PairRR():
            return _pair_reports(variant, shares)
        case MarginalRelease():
            return _marginal_counts(variant, names, shares)
        case RRBA(mix=1.0, groups="one", stopping="never", release="pooled"):
            return _block_of_all(variant, shares)
        case _:
            return None


def expected_numbers(variant: Variant, shares: Shares) -> Message | None:
    """Expected publication of ``REPORTS`` respondents by a variant that estimates means.

    None of a variant that estimates shares alone.
    """
    match variant:
        case NumericMean() if _inherits(variant, NumericMean, "answer", "randomizers", "estimate"):
            return _attribute_tallies(variant, shares)
        case KeyValueCollection() if _inherits(variant, KeyValueCollection, "party", "estimate"):
            return _symbols(variant, shares)
        case _:
            return None


def is_same_for_all(variant: Variant) -> bool:
    """Check whether expected reports are the same for every table."""
    return isinstance(variant, AttributeOracles | Tallied | RRBA | oracle.FrequencyOracle)


def counts_truly(variant: Variant) -> TypeGuard[Counted]:
    """Check whether true answers are counted, exactly or with coins."""
    return isinstance(variant, Counted) and _inherits(variant, Counted, "vector", "table_estimate")


def expected_counts(
    variant: Counted, respondents: int, parties: int
) -> LinearEstimate[NoisyTables]:
    """An estimate whose errors given the answers are those of any counts: they depend on none.

    Here the respondents are alike, and every cell has the mean of its coins.

    Args:
        respondents: the counted respondents.
        parties: number of parties that hold the respondents.
    """
    noise, alike = variant.sums.noise, Alike(variant.survey)
    coins = 0 if noise is None else round(parties * noise.mean)
    tables = {names: rounded(alike.margin(names), respondents) + coins for names in variant.tables}
    return variant.table_estimate(tables, respondents, parties)


def _inherits(variant: Variant, base: type[Variant], *methods: str) -> bool:
    return all(getattr(type(variant), name) is getattr(base, name) for name in methods)


def _expected_pool(variant: Blockwise, names: Sequence[str], shares: Shares) -> Pooled:
    """Reports on the blocks that share an attribute with the table; other blocks report 0."""
    survey = variant.survey
    parts: list[tuple[str, ...]] = []
    mixings: list[Mixing] = []
    for block in variant.blocks:
        kept = [place for place, name in enumerate(block.attributes) if name in names]
        if kept:
            sizes = [survey.sizes[axis] for axis in survey.axes(block.attributes)]
            mixings.append(block.randomizer.mixing(sizes, kept))
            parts.append(tuple(block.attributes[place] for place in mixings[-1].places))
    attributes = [name for part in parts for name in part]
    cells = [math.prod(survey.attribute(name).size for name in part) for part in parts]
    table = shares.margin(attributes).reshape(cells)
    for axis, mixing in enumerate(mixings):
        before, after = math.prod(table.shape[:axis]), math.prod(table.shape[axis + 1 :])
        mixed = mixing.apply(table.reshape(before, -1, after))
        table = mixed.reshape(*table.shape[:axis], mixing.reports, *table.shape[axis + 1 :])
    axes = survey.axes(attributes)
    spread = table.reshape([survey.sizes[axis] for axis in axes]).transpose(np.argsort(axes))
    found = Counts.from_table(rounded(spread, REPORTS))
    codes = np.zeros((len(found.codes), len(survey.sizes)), survey.dtype)
    codes[:, sorted(axes)] = found.codes
    return Pooled(codes, found.counts)


def _attribute_tallies(variant: Spl | Smp | RsFd | NumericMean, shares: Shares) -> AttributeTallies:
    reports = REPORTS // variant.attributes if isinstance(variant, Smp) else REPORTS
    totals = [
        _tally(one, shares.margin((name,)), reports)
        for one, name in zip(variant.randomizers, variant.survey.names, strict=True)
    ]
    number = np.full(variant.attributes, reports, np.int64)
    return AttributeTallies(REPORTS, number, np.concatenate(totals))


def _tally(randomizer: Randomizer, answers: Floats, reports: int) -> Whole:
    """Expected ``Randomizer.tally`` of so many reports."""
    if randomizer.is_table:
        return rounded(answers @ randomizer.matrix(), reports)
    support = randomizer.support
    chance = float(support.other) + answers * float(support.gain)
    return np.rint(chance * reports).astype(np.int64)


def _symbols(variant: KeyValueCollection, shares: Shares) -> SymbolCounts:
    """Expected reports on every key, by equally many respondents in all rounds."""
    keys, each = len(variant.survey.names), variant.client.each
    states = np.zeros((keys, len(SYMBOLS)))
    for place, (name, values) in enumerate(zip(variant.survey.names, variant.values, strict=True)):
        answers = shares.margin((name,))
        plus = (1 + np.nan_to_num(values[1 : len(answers)])) / 2
        states[place] = answers[0], answers[1:] @ plus, answers[1:] @ (1 - plus)
    fakes, counts = np.zeros(keys), list[Whole]()
    for _ in range(variant.repeats):
        laws = np.broadcast_to(
            symbol_laws(each, fakes, (keys,)), (keys, len(SYMBOLS), len(SYMBOLS))
        )
        said = np.einsum("ks,kst->kt", states, laws)
        counts.append(_rounded_rows(said, np.full(keys, REPORTS // keys)))
        fakes = fakes_after(counts[-1], each)
    return SymbolCounts(np.stack(counts))


def _pair_reports(variant: PairRR, shares: Shares) -> Tally:
    tables = []
    for names, randomizer in zip(variant.tables, variant.randomizers, strict=True):
        answers = shares.margin(names).reshape(-1)
        keep = randomizer.uniform_keep
        assert keep is not None
        tables.append(rounded(keep * answers + (1 - keep) / len(answers), REPORTS))
    return Tally(REPORTS, b"", b"", np.concatenate(tables))


def _marginal_counts(
    variant: MarginalRelease, names: Sequence[str], shares: Shares
) -> marginals.Counted | None:
    """Expected reports on bits: the table's bits as assumed, all others uniform."""
    plan, encoding = variant.plan, variant.encoding
    bits = encoding.name_bits(*names)
    asked = [encoding.binary.index(bit) for bit in bits]
    codes = [1 << variant.encoding.bits[variant.survey.index(name)] for name in names]
    table = np.zeros(codes)
    margin = shares.margin(names)
    table[tuple(slice(size) for size in margin.shape)] = margin
    table = table.reshape((2,) * len(bits))
    each, left = divmod(REPORTS, plan.choices)
    reports = np.full(plan.choices, each, np.int64)
    reports[:left] += 1
    width = 1 if plan.transformed else plan.cells
    patterns: dict[tuple[int | None, ...], Floats] = {}

    def chances(places: tuple[int, ...]) -> Floats:
        """Probabilities that a report on these bits counts for each cell, or has the sign -1."""
        pattern = tuple(asked.index(place) if place in asked else None for place in places)
        if pattern not in patterns:
            patterns[pattern] = _chances(variant, table, pattern)
        return patterns[pattern]

    found = np.array([chances(plan.attributes(choice)) for choice in range(plan.choices)])
    found = found.reshape(plan.choices, width)
    if plan.method.endswith("PS"):
        return marginals.Counted(reports, _rounded_rows(found, reports))
    return marginals.Counted(reports, np.rint(found * reports[:, np.newaxis]).astype(np.int64))


def _block_of_all(variant: RRBA, shares: Shares) -> Released:
    """One block with all respondents; with uniform fakes all blocks have the same law."""
    plan = variant.plan
    asked = np.zeros(len(plan.group_names))
    for view in plan.views:
        asked[list(view)] += 1 / (len(view) * len(plan.views))
    keeps = np.array(plan.thresholds) / WORDS
    counts = [
        rounded(keep * answers + (1 - keep) / len(answers), round(REPORTS * part))
        for names, keep, part in zip(plan.group_names, keeps, asked, strict=True)
        for answers in (shares.margin(names).reshape(-1),)
    ]
    running = Running(plan.cells, keeps)
    running.add(np.concatenate(counts), running.tables(variant.mix))
    return Released(1, REPORTS, running.raw(), running.errors(), running.counts)


def _chances(variant: MarginalRelease, table: Floats, pattern: tuple[int | None, ...]) -> Floats:
    plan = variant.plan
    support = plan.randomizer.support
    kept = [place for place in pattern if place is not None]
    summed = table.sum(axis=tuple(axis for axis in range(table.ndim) if axis not in kept))
    order = sorted(kept)
    summed = summed.transpose([order.index(place) for place in kept])
    shape = [1 if place is None else 2 for place in pattern]
    free = pattern.count(None)
    whole = np.broadcast_to(summed.reshape(shape), (2,) * len(pattern)) / 2**free
    if plan.transformed:
        odd = np.indices(whole.shape).sum(axis=0) % 2
        minus = float(whole[odd == 1].sum())
        whole = np.array([minus])
    found: Floats = float(support.other) + whole * float(support.gain)
    return found.reshape(-1)


def rounded(shares: Floats, reports: int) -> Whole:
    """Whole counts with these shares and this sum, each within 1 of its exact value."""
    return _rounded_rows(shares.reshape(1, -1), np.array([reports])).reshape(shares.shape)


def _rounded_rows(shares: Floats, reports: Whole) -> Whole:
    """Expected counts of each row of a table, as whole numbers.

    Sums from the left are rounded and not the shares, so that no count is below 0 however small the
    shares are and however many.
    """
    sums = np.cumsum(shares, axis=1)
    sums *= reports[:, np.newaxis] / sums[:, -1:]
    ends = np.rint(sums).astype(np.int64)
    counts = ends.copy()
    counts[:, 1:] -= ends[:, :-1]
    return counts
