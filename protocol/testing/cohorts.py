"""Tests of cohorts: a live run of the same people has the same result."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from msgspec.structs import fields

from protocol.crypto.randomness import Stream, Streams, public_nonce, secret_of
from protocol.errors import CannotTabulateError
from protocol.messages import AGGREGATOR, IDENTITY_STREAM, ROLE_STREAM, Message, PartyId
from protocol.session.charter import Charter
from protocol.session.exchange import Exchange
from protocol.session.local import run_locally
from protocol.session.roster import Identity, Roster
from protocol.session.tabulation import Stage
from protocol.session.variant import Variant
from protocol.simulation.populations import cohorts
from protocol.simulation.populations.cohorts import Job, cohort_parts, count_cohort
from protocol.simulation.populations.population import Resampled
from protocol.simulation.populations.tally import Tally
from protocol.surveys.records import Records

PEOPLE, COHORT = 250, 60
"""The number of people asked, and the people of a cohort."""


def check_cohorts(variant: Variant, records: Records, *, seed: int = 1) -> None:
    """Compare the counts of cohorts with a live run in which each cohort is a party.

    Variants that cannot be tabulated are not checked. Neither are those that ask other people
    later: they have blocks of parties in a live run, and blocks of respondents in a tabulation.

    Args:
        variant: the variant, with its parameters.
        records: the records that people are drawn from.
        seed: of both.

    Raises:
        AssertionError: names the field of the result that differs.
    """
    job = Job(variant, Resampled(records), seed)
    try:
        counted = counted_by_law(job, people=PEOPLE, cohort=COHORT)
    except CannotTabulateError:
        return
    if len({stage.group for stage in counted.stages}) == 1:
        check_alike(counted.result, published_live(job, counted.stages, cohort=COHORT))


def check_alike(counted: Message, live: Message) -> None:
    """Compare the result by law with that of a live run.

    Raises:
        AssertionError: says which field differs.
    """
    if type(counted) is not type(live):
        raise AssertionError(f"by law the result is {counted.kind()!r}, live it is {live.kind()!r}")
    for field in fields(live):
        by_law, said = getattr(counted, field.name), getattr(live, field.name)
        if not np.array_equal(by_law, said):
            raise AssertionError(
                f"field {field.name!r} of the result is not that of a live run of the same people"
            )


class CountedByLaw(NamedTuple):
    """The stages of a tabulation, and its result."""

    stages: tuple[Stage, ...]
    result: Message


def counted_by_law(job: Job, *, people: int, cohort: int) -> CountedByLaw:
    """Tabulate in one loop.

    Raises:
        CannotTabulateError: the variant cannot be tabulated.
    """
    asking = job.variant.stages(people)
    stages = [next(asking)]
    while True:
        tally = Tally(len(stages) - 1, people=stages[-1].people, cohort=cohort)
        for number in tally.missing():
            k = tally.cohort_size(number)
            # Live every part is a party.
            parts = -(-k // cohorts.PART)
            tally.add(number, count_cohort(job, stages[-1], number, k, parts))
        try:
            stages.append(asking.send(tally.totals))
        except StopIteration as end:
            return CountedByLaw(tuple(stages), end.value)


def published_live(job: Job, stages: tuple[Stage, ...], *, cohort: int) -> Message:
    """The published message if every part of every cohort is a live party.

    Args:
        job: the tabulation.
        stages: as they were asked.
        cohort: the number of people in a cohort.

    Raises:
        ProtocolError: the live run fails.
    """
    secret = secret_of(job.seed)
    parts = [
        part
        for stage in {stage.group: stage for stage in stages}.values()
        for number, start in enumerate(range(0, stage.people, cohort))
        for part in cohort_parts(job, stage, number, min(cohort, stage.people - start))
    ]
    streams = _Streams(secret, public_nonce(secret), {part.me.id: part.me.stream for part in parts})
    names = (AGGREGATOR, *(part.me.id for part in parts))
    members = {
        name: Identity(name, streams.stream(name, IDENTITY_STREAM).bytes(32)) for name in names
    }
    roster = Roster(tuple((name, identity.public) for name, identity in members.items()))
    charter = _Charter(variant=job.variant, roster=roster, nonce=public_nonce(secret))
    holdings = {part.me.id: part.records for part in parts}
    return run_locally(Exchange(charter), streams, holdings, identities=members).result


class _Charter(Charter, frozen=True):
    """A charter with the session of cohorts, which follows from the seed alone."""

    @property
    def session(self) -> bytes:
        return self.nonce


class _Streams(Streams):
    """The streams of a session, in which parties have the streams of their parts."""

    def __init__(self, secret: bytes, session: bytes, parts: dict[PartyId, Stream]) -> None:
        super().__init__(secret, session)
        self._parts = parts

    def stream(self, party: str, purpose: str) -> Stream:
        if purpose == ROLE_STREAM and party in self._parts:
            return self._parts[PartyId(party)]
        return super().stream(party, purpose)
