"""Base of the protocols with one question and one report of every party."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import ClassVar, Generic, TypeVar, cast

import numpy as np

from protocol.accounting.events import Derived, Plain, PrivacyEvent, Public, Randomized
from protocol.crypto.randomness import Stream
from protocol.errors import CannotTabulateError, LocalProtocolError, ProtocolError
from protocol.estimators.estimate import Estimate
from protocol.messages import AGGREGATOR, Message, PartyId
from protocol.randomizers.randomizer import Randomizer
from protocol.session.roles import Me, Seen
from protocol.session.so_far import OneWait, SoFar, Waiting
from protocol.session.tabulation import Respondents, Stage, Totals, number_vector, with_numbers
from protocol.session.variant import Variant
from protocol.surveys.records import Records
from protocol.variants.reports.by_stratum import ByStratum, pooled_by_stratum, with_strata
from protocol.wire.codec import Codec, Kind

Question = TypeVar("Question", bound=Message)
Answer = TypeVar("Answer", bound=Message)
Report = TypeVar("Report")
R = TypeVar("R", bound=Randomizer)

PROBED = 9
"""Number of made-up reports that test whether results add up."""


class Request(Message, frozen=True):
    """The question; the charter has the randomizers.

    Args:
        survey: the digest of the survey.
    """

    scalar_bytes = 64

    survey: bytes


class OneReport(Variant, Generic[Question, Answer, Report], frozen=True, kw_only=True):
    """Base of the protocols in which every party is asked once and sends one report.

    Its ``messages`` are the question, the answer and the result. A subclass makes an answer
    (``answer``), gives its event (``report_reveals``) and makes the result (``pooled``). Its types
    are the question, the answer and the report: the answer itself, unless the subclass unpacks it
    (``read``).
    """

    heeds: ClassVar[tuple[type[Message], ...] | None] = ()

    @property
    def contribution(self) -> type[Answer]:
        """The answer."""
        return self._message_types[1]

    @property
    def _message_types(self) -> tuple[type[Question], type[Answer], type[Message]]:
        return cast("tuple[type[Question], type[Answer], type[Message]]", self.messages)

    @property
    def randomizer(self) -> Randomizer:
        """Randomizer of a report that is one draw on all attributes together."""
        raise NotImplementedError

    def question(self) -> Question:
        """Question of the aggregator: by default a ``Request``."""
        return cast(Question, Request(self.survey.digest))

    def consent(self, question: Question) -> None:
        """A party's check of the question: by default of its ``survey``.

        Raises:
            PrivacyError: it asks for anything other than what was agreed to.
        """
        self.check_asked(cast(Request, question).survey)

    def answer(self, records: Records, question: Question, stream: Stream) -> Answer:
        """A party's report.

        Args:
            records: of its respondents.
            question: after the party's consent.
            stream: the randomness for this answer.
        """
        raise NotImplementedError

    def read(self, report: Answer) -> Report | None:
        """Report in an answer: the answer itself, unless a subclass unpacks it.

        None if it is malformed. It is then left out, and charged as the true answers.
        """
        return cast(Report, report)

    def pooled(self, reports: Sequence[Report]) -> Message:
        """The result from the parties' reports, at least a quorum of them."""
        raise NotImplementedError

    def report_reveals(self, report: Report, seen: Seen) -> PrivacyEvent:
        """Event of a report, as ``reveals``; by default one draw of ``randomizer``.

        Args:
            report: by ``read``.
            seen: as in ``reveals``.
        """
        return Randomized(self.randomizer, self.survey.names)

    def alone(self, contribution: Message) -> Message | None:
        """Result of ``pooled`` on one report."""
        read = self.read(contribution) if isinstance(contribution, self.contribution) else None
        return None if read is None else self.pooled([read])

    def so_far(self, session: bytes) -> SoFar:
        """The estimate from the reports so far."""
        return _Reports(self)

    async def party(self, me: Me, records: Records) -> None:
        """Receive the question, consent, report."""
        question = await me.receive(self._message_types[0], AGGREGATOR)
        self.consent(question)
        await me.send(AGGREGATOR, self.answer(records, question, me.stream_for(question)))

    async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Message:
        """Ask every party, wait for the reports, and pool them.

        Raises:
            ProtocolError: too few valid reports, or with weights, a party in no stratum.
        """
        for party in parties if self.strata else ():
            self.stratum(party)
        quorum = self.quorum_of(len(parties))
        await me.broadcast(parties, self.question())
        reports = await me.gather(self.contribution, parties, within=self.patience, at_least=quorum)
        read = self.legible(reports)
        check_valid(len(read), quorum)
        return pooled_by_stratum(self, read, self.pooled)

    def legible(self, answers: Mapping[PartyId, Answer]) -> dict[PartyId, Report]:
        """Reports by party, without malformed ones."""
        read = {party: self.read(answer) for party, answer in answers.items()}
        return {party: found for party, found in read.items() if found is not None}

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        return with_strata(self, super().kinds(parties))

    def stages(self, people: int) -> Generator[Stage, Totals, Message]:
        """One question; the result is the sum of the results of single parties.

        Raises:
            CannotTabulateError: the results of single parties do not add up to that of all, or
                strata have weights.
            LocalProtocolError: a party could not send its report.
        """
        self.check_unweighted()
        return with_numbers(self._probed, (yield Stage(self.question(), people)))

    def check_unweighted(self) -> None:
        """Refuse weights where respondents are counted in cohorts.

        Raises:
            CannotTabulateError: strata have weights.
        """
        if self.strata:
            raise CannotTabulateError(
                "weights: respondents who are counted in cohorts are in no stratum; expected a "
                "plan without weights, or a run"
            )

    @functools.cached_property
    def _probed(self) -> Message:
        """The result of some made-up respondents, checked to be the sum of each one's."""
        each = [self._made_up_report(party) for party in range(PROBED)]
        together = self.pooled(each)
        apart = [number_vector(self.pooled([read]), self.name) for read in each]
        whole = number_vector(together, self.name)
        same_shape = len({len(whole), *map(len, apart)}) == 1
        if not same_shape or not np.array_equal(whole, sum(apart)):
            raise CannotTabulateError(
                f"variant {self.name!r} cannot be tabulated: the results of single parties do not "
                "add up to the result of all; it needs methods 'stages' and 'count' of its own"
            )
        return together

    def count(self, stage: Stage, parties: Iterable[Respondents]) -> Totals:
        """The sum of the results of single parties."""
        found = np.zeros(0, np.int64)
        for party in parties:
            counts = number_vector(self.pooled([self.heard(party, stage.asked)]), self.name)
            found = found + counts if len(found) else counts
        return found

    def heard(self, party: Respondents, question: Message) -> Report:
        """Read a party's report.

        Raises:
            CannotTabulateError: it answers with another kind of message.
            LocalProtocolError: it is malformed.
        """
        read = self.read(party.ask(question, kind=self.contribution))
        if read is None:
            raise self._malformed()
        return read

    def _made_up_report(self, party: int) -> Report:
        stream = Stream(bytes(32)).derive(f"respondent {party}")
        codes = stream.integers(np.array(self.survey.sizes))[np.newaxis]
        report = self.answer(Records(self.survey, codes), self.question(), stream)
        Codec(self.kinds(1), members=2).encode(report)
        read = self.read(report)
        if read is None:
            raise self._malformed()
        return read

    def _malformed(self) -> LocalProtocolError:
        what = self.contribution.kind()
        return LocalProtocolError(f"its party's own {what!r} is malformed")

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        """Event of a message: ``report_reveals`` for a report; the result follows from reports."""
        question, answer, result = self._message_types
        if isinstance(message, ByStratum):
            return Derived()
        if isinstance(message, answer):
            read = self.read(message)
            return Plain(self.survey.names) if read is None else self.report_reveals(read, seen)
        if isinstance(message, question):
            return Public()
        return Derived() if isinstance(message, result) else Plain(self.survey.names)


class _Reports(OneWait[Answer], Generic[Answer, Report]):
    """The reports so far, then those that were counted."""

    def __init__(self, variant: OneReport[Question, Answer, Report]) -> None:
        super().__init__(variant.contribution)
        self._variant = variant

    def estimate(self, waiting: Waiting) -> Estimate | None:
        variant = self._variant
        read = variant.legible(self.come(waiting))
        if not read:
            return None
        return variant.estimate(pooled_by_stratum(variant, read, variant.pooled))


def even_shares(
    sizes: Sequence[int], epsilon: float, make: Callable[[int, float], R]
) -> tuple[R, ...]:
    """Randomizers of several attributes, with even shares of an epsilon.

    Args:
        sizes: the number of categories of each attribute.
        epsilon: the largest sum of the shares.
        make: of a number of categories and a share of epsilon.
    """
    share = epsilon / len(sizes)
    while True:
        made = tuple(make(size, share) for size in sizes)
        # The sum of rounded shares may exceed epsilon by a bit.
        if math.fsum(one.epsilon for one in made) <= epsilon:
            return made
        share = math.nextafter(share, 0.0)


def check_valid(valid: int, quorum: int, what: str = "valid reports") -> None:
    """Refuse to go on with too few valid reports.

    Args:
        valid: number of parties that sent a well-formed report.
        what: the reports, in words.

    Raises:
        ProtocolError: there are too few.
    """
    if valid < quorum:
        raise ProtocolError(f"{valid} parties sent {what}, at least {quorum} needed")
