"""Trials that are secure sums over some parties, while all others conspire.

The others know their own inputs, and compute the sum of the rest: its counts, protected by its
coins alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from protocol.accounting.events import Coins, Merged, layers
from protocol.attack.columns import Codes, View
from protocol.attack.trials import (
    NOTHING_TOLD,
    Chunk,
    Pair,
    Seen,
    Study,
    Trials,
    carried_out,
    draw_seeds,
    pair_bound,
)
from protocol.audit.coalition.coalition import Coalition
from protocol.audit.ledger import Account
from protocol.crypto.randomness import WORDS
from protocol.crypto.sealing import Edge, edge_key
from protocol.messages import Message, PartyId
from protocol.randomizers.coins import SIDES
from protocol.sharing.masks import Bits, Mask, expand_mask, mask_seed, pair_mask
from protocol.sharing.meeting import graph_context
from protocol.sharing.messages import OPENED, Graph, Opening, Upload
from protocol.simulation.mapping import Map, one_by_one
from protocol.simulation.rehearsal import Rehearsal
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey
from protocol.variants.sums.tallies import make_layout

SUMMED = "the sum over the honest"


def sums_of_honest(
    study: Study,
    pair: Pair,
    trials: int,
    *,
    honest: int,
    carried: Map = one_by_one,
) -> Trials:
    """Trials that are sums over so many parties, as many in a run as the records allow.

    Args:
        honest: number of parties in each. The first has one of the two records; the others have the
            same ones in every trial.
        carried: carries out the runs.

    Raises:
        ValueError: a run has no sum with masks that can be taken off.
    """
    drawn = study.stream.derive(f"sums {pair.words}")
    codes = study.records.codes.astype(np.int64)
    groups = max(len(codes) // honest, 1)
    runs = -(-trials // groups)
    beside = [place for place in range(len(codes)) if place != study.target]
    chunk = Chunk(
        study=study,
        pair=pair,
        bits=drawn.bernoulli(WORDS // 2, (runs, groups)),
        seeds=draw_seeds(drawn.derive("seeds"), runs),
        others=codes[beside[: honest - 1]],
    )
    return carried_out("sums over the honest", seen_sums, chunk, carried)


def seen_sums(chunk: Chunk) -> Seen:
    """Each group of parties of a run is a trial, with all others conspiring."""
    study, pair, others = chunk.study, chunk.pair, chunk.others
    assert others is not None
    honest, survey = 1 + len(others), study.records.survey
    views: list[View] = []
    ratios, bound = [], NOTHING_TOLD
    coins: Sequence[Merged] = ()
    both = np.stack(pair.records)
    for bits, seed in zip(chunk.bits, chunk.seeds, strict=True):
        codes = np.empty((len(bits), honest, both.shape[1]), np.int64)
        codes[:, 0], codes[:, 1:] = both[bits.astype(np.int64)], others
        run = study.rehearse(
            codes.reshape(-1, both.shape[1]), parties=codes[..., 0].size, seed=seed
        )
        parties = run.charter.roster.parties
        if not views:
            # All groups of all runs are alike, so one ledger is enough.
            ledger = run.ledger(_conspirators(study, parties, parties[:honest]))
            bound = pair_bound(study, ledger, pair, parties[:1])
            coins = _noisy_counts(ledger.everybody.get(parties[0]))
        for place in range(len(bits)):
            sums = summed_over(run, parties[honest * place : honest * (place + 1)])
            views.append(View({SUMMED: sums}, {}))
            ratio = 0.0
            for part in coins:
                event = part.event
                assert isinstance(event, Coins)
                layout = make_layout(survey, event.tables)
                known = layout.counted(layout.table_cells(Records(survey, others)))
                ratio += log_ratio(sums, event, part.honest, known, survey, pair.records)
            ratios.append(ratio)
    return Seen(views, ratios, bound)


def _conspirators(study: Study, parties: Sequence[PartyId], honest: Sequence[PartyId]) -> Coalition:
    """Coalition of the observer's members without records and all parties but the honest ones."""
    serving = [name for name in study.observer.members if name not in parties]
    return Coalition((*serving, *(name for name in parties if name not in honest)))


def _noisy_counts(account: Account | None) -> list[Merged]:
    """Counts with coins of a party in sums."""
    trail = () if account is None else account.trail
    return [
        part
        for charge in trail
        for part in layers(charge.event)
        if isinstance(part, Merged) and isinstance(part.event, Coins)
    ]


def log_ratio(
    sums: NDArray[np.integer],
    event: Coins,
    honest: int,
    known: NDArray[np.integer],
    survey: Survey,
    records: tuple[Codes, Codes],
) -> float:
    """Log likelihood ratio of a sum under the second input to the first, in nats.

    Args:
        sums: (cells,) counts and coins of all honest parties.
        event: of each honest party.
        honest: number of honest parties.
        known: (cells,) the counts of all honest parties but the target.
        survey: of the tables' attributes.
        records: (m,) codes under the first and the second input.

    Returns:
        Infinite if only one of the inputs can have such a sum; 0 if neither can.
    """
    layout = make_layout(survey, event.tables)
    codes = np.stack(records).astype(survey.dtype)
    first, second = layout.table_cells(Records(survey, codes)) + layout.starts
    coins, chance = event.trials * honest, event.chance / SIDES
    heads = sums - known.astype(np.int64)
    changed = first != second
    gains, loses = (
        float(_log_steps(heads[cells[changed]], coins, chance).sum()) for cells in (first, second)
    )
    return 0.0 if math.isnan(gains - loses) else gains - loses


def _log_steps(heads: NDArray[np.integer], coins: int, chance: float) -> NDArray[np.float64]:
    """The logarithms of ``b(y) / b(y-1)`` for numbers of heads y, of a binomial law b."""
    with np.errstate(divide="ignore"):
        left = np.log(np.maximum(coins - heads + 1, 0) * (chance / (1 - chance)))
        steps: NDArray[np.float64] = left - np.log(np.maximum(heads, 0))
    return steps


def summed_over(run: Rehearsal, parties: Sequence[PartyId]) -> NDArray[np.int64]:
    """Sum of some parties' contributions to a run's secure sum, (cells,), computed by all others.

    The others know the masks that they share with these parties. The opening removes the rest.

    Raises:
        ValueError: no sum on record has masks that can be taken off.
    """
    uploads, graphs, secrets = _recorded_sum(run)
    if not set(parties) <= uploads.keys() & graphs.keys() & secrets.keys():
        raise ValueError("there is no sum on record whose masks can be taken off")
    places = {name: place for place, name in enumerate(run.charter.roster.parties)}
    total: NDArray[np.unsignedinteger] = np.zeros_like(uploads[parties[0]])
    for name in parties:
        values = uploads[name]
        bits: Bits = 16 if values.dtype.itemsize == 2 else 32
        total += values
        total -= expand_mask(secrets[name], len(values), bits=bits)
        for other in map(PartyId, graphs[name].names):
            if other not in parties:
                place = places[name], places[other]
                total -= _shared_mask(run, graphs[name], name, other, place, len(values), bits)
    return total.astype(np.int64)


def _shared_mask(
    run: Rehearsal,
    graph: Graph,
    name: PartyId,
    other: PartyId,
    places: tuple[int, int],
    cells: int,
    bits: Bits,
) -> Mask:
    """The mask that a party added for another, by the other's key."""
    identities, session = run.setting.identities, run.charter.session
    context = graph_context(session, graph.root, graph.joined, graph.respondents)
    agreed = identities[other].agree(identities[name].public)
    seed = mask_seed(Edge(other, name, edge_key(agreed, context=context)))
    return pair_mask(seed, cells, place=places[0], other=places[1], bits=bits)


def _recorded_sum(
    run: Rehearsal,
) -> tuple[
    Mapping[PartyId, NDArray[np.unsignedinteger]], Mapping[PartyId, Graph], Mapping[PartyId, bytes]
]:
    """Uploads of a sum, the graph as sent to each sender, and the seeds that open the masks."""
    uploads, graphs = {}, {}
    secrets: dict[PartyId, bytes] = {}
    names = run.charter.roster.parties
    kinds = {kind.kind() for kind in (Upload, Graph, Opening)}
    for envelope in run.sent.values():
        message: Message | None = run.message(envelope) if envelope.kind in kinds else None
        match message:
            case Upload():
                uploads[envelope.sender] = message.values
            case Graph():
                graphs[envelope.recipient] = message
            case Opening():
                some = names[message.round * OPENED :]
                opened = zip(some, message.opened, message.secrets, strict=False)
                secrets |= {name: seed.tobytes() for name, there, seed in opened if there}
            case _:
                pass
    return uploads, graphs, secrets
