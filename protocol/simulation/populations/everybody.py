"""Surveys of all people of a list of records, without messages."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from protocol.crypto.randomness import Stream, public_nonce, secret_of
from protocol.errors import LocalProtocolError
from protocol.messages import Message, PartyId
from protocol.session.roles import Me
from protocol.session.tabulation import Respondents, Stage
from protocol.session.variant import Variant
from protocol.simulation.populations.cohorts import NOBODY, PART, blaming, count_parties
from protocol.surveys.records import Records

Rows = NDArray[np.int64]


def ask_everybody(
    variant: Variant, records: Records, *, seed: int, parties: int | None = None
) -> Message:
    """The result of a survey of all these people, without messages.

    Its law is that of a survey in which every respondent answers. The people of each group of
    stages are drawn without replacement. Memory is bounded by the records and the counts.

    Args:
        variant: the protocol; an answer must depend on the question and the person's own record
            alone.
        records: of everybody.
        seed: decides all randomness, 0 to 2**64 - 1. It protects nobody.
        parties: number of parties that they are spread over; None if everybody is one.

    Returns:
        The result, as ``Variant.estimate`` takes it.

    Raises:
        CannotTabulateError: the variant has no answers of single respondents.
        LocalProtocolError: the variant's code fails, or it asks more people than there are.
        ValueError: the seed is out of range.
    """
    if variant.max_records < PART:
        variant = replace(variant, max_records=PART)
    lots = _Lots(len(records), Stream(secret_of(seed)).derive("everybody"))
    asking = variant.stages(len(records))
    with blaming(variant):
        stage = next(asking)
    while True:
        with blaming(variant):
            parts = _stage_parts(variant, records, stage, lots.of(stage), seed, parties)
            totals = variant.count(stage, parts)
        try:
            with blaming(variant):
                stage = asking.send(totals)
        except StopIteration as end:
            result: Message = end.value
            return result


class _Lots:
    """Rows of each group, drawn without replacement."""

    def __init__(self, people: int, stream: Stream) -> None:
        self._people = people
        self._stream = stream
        self._order: Rows | None = None
        self._groups: dict[int, Rows] = {}
        self._asked = 0

    def of(self, stage: Stage) -> Rows:
        """The rows that a stage asks."""
        if stage.group not in self._groups:
            start, self._asked = self._asked, self._asked + stage.people
            if self._asked > self._people:
                raise LocalProtocolError(f"asks {self._asked} people of {self._people}")
            if stage.people == self._people:
                self._groups[stage.group] = np.arange(self._people)
            else:
                if self._order is None:
                    self._order = self._stream.permutation(self._people)
                self._groups[stage.group] = self._order[start : self._asked]
        return self._groups[stage.group]


def _stage_parts(
    variant: Variant, records: Records, stage: Stage, rows: Rows, seed: int, parties: int | None
) -> Iterator[Respondents]:
    """The respondents that a stage asks, in parts that stay in a processor's cache."""
    secret = secret_of(seed)
    session = public_nonce(secret)
    # The people of one group answer alike in all of its stages.
    stream = Stream(secret).derive(f"everybody, group {stage.group}")
    for part, start in enumerate(range(0, len(rows), PART)):
        stop = min(len(rows), start + PART)
        name = PartyId(f"part-{stage.group}-{part}")
        me = Me(name, NOBODY, stream.derive(str(part)), session=session)
        own = count_parties(parties, start, stop, len(rows))
        party = Respondents(variant, records.pick(rows[start:stop]), me, own)
        yield party
        party.close()
