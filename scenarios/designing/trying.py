"""Runs of one variant on known records, and the errors of its tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from msgspec.structs import replace

from protocol.crypto.randomness import WORDS, Stream, secret_of
from protocol.errors import CannotTabulateError, LocalProtocolError, ProtocolError, UsageError
from protocol.estimators.projection import Projection
from protocol.messages import DONE, Message
from protocol.randomizers.exact import Floats
from protocol.session.exchange import Exchange
from protocol.session.local import run_locally
from protocol.session.variant import Variant
from protocol.sharing.sums import find_secure_sum
from protocol.simulation.populations.cohorts import PART
from protocol.simulation.populations.everybody import ask_everybody
from protocol.simulation.setting import make_setting
from protocol.surveys.records import Records
from scenarios.designing.targets import Names
from transports.faults import crash, faults

ANSWERS = 200_000
"""Approximate number of respondents in a piece of work by law."""

MOST_RUNS = 20
"""Maximum number of runs in a piece of work by law; by messages it has one run."""

JUDGED = 25
"""Approximate number of runs with judged intervals, which take most of the time."""

_ROUNDING = 1e-12


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """Setup of the runs of a comparison.

    Args:
        tables: the attributes of each table whose cells errors are taken over.
        parties: number of parties that the records are dealt to, at random in every run.
        dropout: the probability with which a party vanishes before it answers.
        projection: projection of further tables to measure; ``none`` for raw tables only.
    """

    tables: tuple[Names, ...]
    parties: int
    dropout: float = 0.0
    projection: Projection = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Some runs of one variant.

    Args:
        variant: the variant.
        records: their answers.
        setup: setup of the runs.
        by_law: whether no messages are sent.
        runs: the seed of each, and whether its intervals are judged.
    """

    variant: Variant
    records: Records
    setup: Setup
    by_law: bool
    runs: tuple[tuple[int, bool], ...]


class Missed(msgspec.Struct, frozen=True, array_like=True):
    """Errors of one run's tables, against the true tables of its respondents.

    Args:
        raw: the mean over all cells of the squared error.
        projected: the error of the projected tables; None if not requested.
        held: number of 95 % intervals that contain the true share, if they are judged.
        known: number of judged intervals.
        cells: number of cells, including those with an unknown interval.
        failed: why the run gave no estimate, and all else says nothing; empty if it gave one.
        tables: the mean over the cells of each table of the squared error.
    """

    raw: float = math.nan
    projected: float | None = None
    held: int = 0
    known: int = 0
    cells: int = 0
    failed: str = ""
    tables: tuple[float, ...] = ()


def is_by_law(variant: Variant, people: int) -> bool:
    """Check whether reports of so many people can be drawn by law.

    Raises:
        LocalProtocolError: as of the variant's own code.
    """
    try:
        next(variant.stages(people))
    except CannotTabulateError:
        return False
    return True


def split_runs(
    variant: Variant, records: Records, setup: Setup, *, by_law: bool, seeds: Sequence[int]
) -> list[Piece]:
    """The runs of a variant in pieces of work."""
    if by_law:
        # Large enough for all runs.
        variant = replace(variant, max_records=PART)
    step = max(1, round(len(seeds) / JUDGED))
    runs = [(seed, number % step == 0) for number, seed in enumerate(seeds)]
    size = max(1, min(MOST_RUNS, ANSWERS // len(records))) if by_law else 1
    return [
        Piece(
            variant=variant,
            records=records,
            setup=setup,
            by_law=by_law,
            runs=tuple(runs[start : start + size]),
        )
        for start in range(0, len(runs), size)
    ]


def missed_in(piece: Piece) -> list[Missed]:
    """Errors of every run of a piece; the kernel of a sweep.

    Raises:
        ProtocolError: a run fails without dropouts.
        UsageError: the variant's estimate does not have these tables.
    """
    truths: dict[Names, Floats] = {}
    return [_run_errors(piece, seed, truths, judged=judged) for seed, judged in piece.runs]


def _run_errors(piece: Piece, seed: int, truths: dict[Names, Floats], *, judged: bool) -> Missed:
    """Errors of one run.

    Args:
        judged: whether intervals are judged.
        truths: the true shares of everybody, as far as they are known; others are added.
    """
    try:
        answered, result = _run_once(piece, seed)
    except LocalProtocolError:
        raise
    except ProtocolError as error:
        if not piece.setup.dropout:
            raise
        return Missed(failed=str(error))
    estimate, setup = piece.variant.estimate(result), piece.setup
    if answered is not piece.records:
        truths = {}
    raw, projected = [], []
    held = known = 0
    for names in setup.tables:
        try:
            table = estimate.table(*names)
        except ValueError as error:
            raise UsageError(f"variant {piece.variant.name!r}: {error}") from error
        if names not in truths:
            truths[names] = estimate.recoded(answered).distribution(names)
        true = truths[names]
        raw.append(_squares(table.values, true))
        if judged:
            low, high = table.interval()
            told = ~np.isnan(low)
            # An exact share is an interval of one point, where rounding decides.
            inside = (low - _ROUNDING <= true) & (true <= high + _ROUNDING)
            known += int(told.sum())
            held += int((inside & told).sum())
        if setup.projection != "none":
            shares = estimate.table(*names, projection=setup.projection).values
            projected.append(_squares(shares, true))
    return Missed(
        raw=_mean(raw),
        projected=_mean(projected) if projected else None,
        held=held,
        known=known,
        cells=sum(map(len, raw)) if judged else 0,
        tables=tuple(float(each.mean()) for each in raw),
    )


def _squares(values: Floats, true: Floats) -> Floats:
    return np.square(values - true).reshape(-1)


def _mean(parts: Sequence[Floats]) -> float:
    return float(np.concatenate(parts).mean())


def _run_once(piece: Piece, seed: int) -> tuple[Records, Message]:
    """One run: the records of the parties that answered, and the published result.

    Raises:
        ProtocolError: too few parties answer, or the variant's code fails.
    """
    records, setup, variant = piece.records, piece.setup, piece.variant
    if piece.by_law and not setup.dropout:
        return records, ask_everybody(variant, records, seed=seed, parties=setup.parties)
    stream = Stream(secret_of(seed)).derive("dealt")
    dealt = records.pick(stream.permutation(len(records)))
    if piece.by_law:
        held = dealt.split(setup.parties)
        stays = stream.words(setup.parties) >= np.uint64(setup.dropout * WORDS)
        parts = [part for part, stay in zip(held, stays.tolist(), strict=True) if stay]
        quorum, sums = variant.quorum_of(setup.parties), find_secure_sum(variant)
        if sums is not None:
            quorum = sums.needed(setup.parties, quorum)
        if len(parts) < quorum:
            raise ProtocolError(
                f"{len(parts)} of {setup.parties} parties answered, at least {quorum} needed"
            )
        answered = Records.joined(parts)
        return answered, ask_everybody(variant, answered, seed=seed, parties=len(parts))
    setting = make_setting(variant, dealt, seed=seed, parties=setup.parties)
    kind = variant.contribution
    rules = (
        [crash(setup.dropout, kind=None if kind is None else kind.kind())] if setup.dropout else []
    )
    run = run_locally(
        Exchange(setting.charter, fate=faults(rules, seed=seed)),
        setting.streams,
        setting.holdings,
        identities=setting.identities,
    )
    parts = [setting.holdings[name] for name, end in run.endings.items() if end == DONE]
    if len(parts) == setup.parties:
        return records, run.result
    return Records.joined(parts), run.result
