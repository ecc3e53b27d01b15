"""A cohort of a population, counted: a pure function of the job, the stage and the cohort's number.

A cohort is drawn and asked in parts of ``PART`` respondents, which stay in a processor's cache. The
stream of its people follows from the seed, the stage's group and the cohort's number, so stages of
one group ask the same people. The stream of their reports depends on the question too.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from protocol.accounting.accountants import Loss, PureAccountant, maximum, total
from protocol.accounting.events import Composed, OneOf, Plain, PrivacyEvent
from protocol.crypto.randomness import Stream, public_nonce, secret_of
from protocol.errors import (
    CannotTabulateError,
    LocalProtocolError,
    ProtocolError,
    SurveyError,
    UnsupportedEventError,
)
from protocol.messages import AGGREGATOR, PartyId
from protocol.session.roles import Me
from protocol.session.roster import Roster
from protocol.session.tabulation import Respondents, Stage, Totals
from protocol.session.variant import Variant, loss_bound
from protocol.simulation.populations.population import Population

PART = 2**16
"""The most respondents of one party."""

JUDGED = PART
"""Number of respondents whose messages are judged for their cost."""

_COUNTED = b"sottovoce cohort 1\0"
_SPARSE, _DENSE = b"s", b"d"
_HEAD = 1 + struct.calcsize("<BQ")
_FEW_CELLS = 1024


NOBODY = Roster(((AGGREGATOR, sha256(b"sottovoce nobody").digest()),))
"""Other members next to a cohort: an aggregator with a key that nobody holds."""


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """Job that all cohorts have in common.

    Args:
        variant: the protocol.
        population: from which people are drawn.
        seed: decides all randomness, 0 to 2**64 - 1.

    Raises:
        SurveyError: the population is of another survey.
        ValueError: the seed is out of range.
    """

    variant: Variant
    population: Population
    seed: int

    def __post_init__(self) -> None:
        if self.population.survey != self.variant.survey:
            raise SurveyError("the population is of another survey than the variant's")
        if not 0 <= self.seed < 2**64:
            raise ValueError(f"seed {self.seed}: expected an integer from 0 to 2**64 - 1")
        object.__setattr__(self, "variant", replace(self.variant, max_records=PART))


@dataclass(frozen=True, slots=True)
class Counted:
    """The counts of a cohort, packed in canonical form.

    Args:
        cells: the length of the vector.
        packed: its form, then all counts, or those that are not 0.
    """

    cells: int
    packed: bytes

    @classmethod
    def of(cls, counts: Totals) -> Counted:
        """Pack counts.

        Raises:
            ValueError: a count is negative.
        """
        sparse = _FEW_CELLS < counts.size <= 2**32
        places = np.flatnonzero(counts) if sparse else None
        if places is not None and places.size * 2 < counts.size:
            form, some = _SPARSE, counts[places]
            before = places.astype("<u4").tobytes()
        else:
            form, some, before = _DENSE, counts, b""
        if some.size and int(some.min()) < 0:
            raise ValueError("a count of a cohort is negative")
        kind = np.min_scalar_type(int(some.max(initial=0))).newbyteorder("<")
        head = form + struct.pack("<BQ", kind.itemsize, some.size)
        return cls(counts.size, b"".join((head, before, some.astype(kind).tobytes())))

    def add_to(self, totals: Totals) -> None:
        """Add the counts to others.

        Raises:
            ValueError: of another length.
        """
        if len(totals) != self.cells:
            raise ValueError(f"a cohort of {self.cells} counts: expected {len(totals)}")
        item, many = struct.unpack_from("<BQ", self.packed, 1)
        counts: NDArray[np.unsignedinteger]
        if self.packed[:1] == _DENSE:
            counts = np.frombuffer(self.packed, f"<u{item}", many, _HEAD)
            # The casting rules would make floats of 64-bit counts of both kinds.
            np.add(totals, counts, out=totals, casting="unsafe", dtype=np.int64)
            return
        places = np.frombuffer(self.packed, "<u4", many, _HEAD)
        counts = np.frombuffer(self.packed, f"<u{item}", many, _HEAD + 4 * many)
        totals[places] += counts.astype(np.int64)

    def leaf(self, *, stage: int, cohort: int, k: int) -> bytes:
        """Leaf of the cohort in the Merkle tree, 32 bytes."""
        head = _COUNTED + struct.pack("<QQQQ", stage, cohort, k, self.cells)
        leaf = sha256(head)
        leaf.update(self.packed)
        return leaf.digest()


@contextmanager
def blaming(variant: Variant, where: str = "") -> Generator[None]:
    """Name the variant in errors of its code.

    Args:
        variant: its code runs in the block.
        where: the cohort, such as ", cohort 3".

    Raises:
        LocalProtocolError: the block raises another error than ``StopIteration``,
            ``CannotTabulateError``, ``UnsupportedEventError`` and ``MemoryError``.
    """
    try:
        yield
    except (StopIteration, CannotTabulateError, UnsupportedEventError, MemoryError):
        raise
    except Exception as error:
        kind = "" if isinstance(error, ProtocolError) else f"{type(error).__name__}: "
        raise LocalProtocolError(f"variant {variant.name!r}{where}: {kind}{error}") from error


def count_cohort(
    job: Job, stage: Stage, cohort: int, k: int, parties: int | None = None
) -> Counted:
    """Draw a cohort, ask it and count its answers.

    Args:
        job: of all cohorts.
        stage: of the variant.
        cohort: its number within the stage, from 0.
        k: the number of its people.
        parties: number of parties that they are spread over; None if everybody is one.

    Raises:
        CannotTabulateError: the variant breaks the rules of tabulation.
        LocalProtocolError: its code or the population's fails.
    """
    with blaming(job.variant, f", cohort {cohort}"):
        return Counted.of(job.variant.count(stage, cohort_parts(job, stage, cohort, k, parties)))


def count_parties(parties: int | None, start: int, stop: int, people: int) -> int | None:
    """Number of parties with some of the people, if all are spread evenly.

    Args:
        parties: the number of all parties; None if everybody is one.
        start, stop: the places of the people.
        people: the number of all people.
    """
    if parties is None:
        return None
    return parties * stop // people - parties * start // people


def cohort_parts(
    job: Job, stage: Stage, cohort: int, k: int, parties: int | None = None
) -> Iterator[Respondents]:
    """The parts of a cohort, each drawn when it is its turn; arguments as ``count_cohort``."""
    secret = secret_of(job.seed)
    session = public_nonce(secret)
    stream = Stream(secret).derive(f"tabulated group {stage.group} cohort {cohort}")
    people, reports = stream.derive("people"), stream.derive("reports")
    for part, start in enumerate(range(0, k, PART)):
        stop = min(k, start + PART)
        records = job.population.draw(stop - start, people.derive(str(part)))
        name = PartyId(f"part-{stage.group}-{cohort}-{part}")
        me = Me(name, NOBODY, reports.derive(str(part)), session=session)
        party = Respondents(job.variant, records, me, count_parties(parties, start, stop, k))
        yield party
        party.close()


def respondent_loss(job: Job, stage: Stage) -> Loss:
    """Loss of a respondent up to a stage, by the messages of its first ``JUDGED`` people.

    If there are more, and their events differ, each figure is at least the most that the variant
    can cost a respondent, as others may cost more. Where the variant fails to judge a message, it
    counts as the answers themselves.

    Raises:
        LocalProtocolError: the variant's code or the population's fails.
        UnsupportedEventError: a randomizer states less than its law has, or is malformed.
    """
    found: list[Respondents] = []

    def kept() -> Iterator[Respondents]:
        for party in cohort_parts(job, stage, 0, min(stage.people, JUDGED), parties=1):
            found.append(party)
            yield party

    with blaming(job.variant, ", cohort 0"):
        job.variant.count(stage, kept())
    accountant = PureAccountant()
    try:
        events = [event for party in found for event in party.tells()]
        loss = total([accountant.judge(event) for event in events])
    except UnsupportedEventError:
        raise
    except Exception:
        # A user's own variant may fail with so many respondents.
        return accountant.judge(Plain(job.variant.survey.names))
    if stage.people > JUDGED and any(map(_differs, events)):
        return maximum([loss, loss_bound(job.variant)])
    return loss


def _differs(event: PrivacyEvent) -> bool:
    """True if an event may differ between respondents."""
    return isinstance(event, OneOf) or (
        isinstance(event, Composed) and any(map(_differs, event.events))
    )
