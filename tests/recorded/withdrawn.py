"""A survey in which parties never came, each with the reason that the aggregator gave for it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from protocol import AGGREGATOR, Attribute, PartyId, Records, Survey
from protocol.simulation.setting import make_setting
from protocol.transcript.entries import Departed
from protocol.transcript.header import make_header
from protocol.variants import RRIndependent
from tests.recorded.runs import Run, Written, written

SURVEY = Survey("Ways", (Attribute(name="bike", categories=("no", "yes")),))


def survey_without(
    reasons: Mapping[str, str], parties: int = 6, *, seeded: bool = True, signed: bool = False
) -> Written:
    """The record of a survey by randomized response.

    Args:
        reasons: why parties were not there, by name; all others answer.
        parties: how many there are: ``party-1``, or ``party-01`` of ten or more, and so on.
        seeded: whether the seed is in the record.
        signed: whether the aggregator signs checkpoints.
    """
    codes = np.arange(parties, dtype=np.uint8)[:, np.newaxis] % 2
    variant = msgspec.structs.replace(RRIndependent.with_epsilon(SURVEY, 1.0), quorum=1)
    setting = make_setting(variant, Records(SURVEY, codes), seed=1)
    holdings = {name: held for name, held in setting.holdings.items() if name not in reasons}
    run = Run(msgspec.structs.replace(setting, holdings=holdings), seeded=seeded, signed=signed)
    assert run.result is not None
    entries = [
        msgspec.structs.replace(entry, reason=reasons[entry.party])
        if isinstance(entry, Departed) and entry.party in reasons
        else entry
        for entry in run.entries
    ]
    signer = setting.identities[PartyId(AGGREGATOR)] if signed else None
    return written(
        make_header(setting.charter, seed=setting.seed if seeded else None), entries, signer=signer
    )
