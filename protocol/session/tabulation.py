"""Respondents in cohorts, without messages to others: a variant's answers, by their law.

If a report depends only on the question and its respondent's answers, a cohort of respondents is a
party that speaks for them all, and the aggregator's counts are added up. The role of the party is
the variant's own, and so is the reading of its reports.
"""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from msgspec.structs import fields
from numpy.typing import NDArray

from protocol.accounting.events import PrivacyEvent
from protocol.errors import CannotTabulateError
from protocol.messages import AGGREGATOR, Message
from protocol.session.roles import Gather, Me, Seen, Send
from protocol.surveys.records import Records

M = TypeVar("M", bound=Message)

Totals: TypeAlias = NDArray[np.int64]
"""Counts of one stage in one vector; those of two cohorts are added."""


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """A question to many people.

    Args:
        asked: the content for cohorts, such as the question.
        people: the number of people asked.
        group: the group of people. Stages of one group ask the same people, others ask other
            people.
        rest: the most people that may be asked later, in all further stages together.
    """

    asked: Any
    people: int
    group: int = 0
    rest: int = 0


class Asked(Protocol):
    """Members of a variant that tabulation needs."""

    @property
    def name(self) -> str:
        """Name of the variant."""
        ...

    def party(self, me: Me, records: Records) -> Coroutine[Any, Any, None]:
        """The role of a party."""
        ...

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        """Event of a message."""
        ...


class Respondents:
    """A party that speaks for a part of a cohort, question by question.

    Args:
        variant: the variant.
        records: the records of the respondents.
        me: the party's own side.
        parties: the number of parties that it stands for; None if every respondent is one.

    Attributes:
        said: its messages, in order.
        told: further events, of messages that others' messages would complete.
    """

    __slots__ = (
        "_role",
        "_seen",
        "_variant",
        "_waiting",
        "me",
        "parties",
        "records",
        "said",
        "told",
    )

    def __init__(
        self, variant: Asked, records: Records, me: Me, parties: int | None = None
    ) -> None:
        self.me = me
        self.records = records
        self.parties = len(records) if parties is None else parties
        self.said: list[Message] = []
        self.told: list[PrivacyEvent] = []
        self._variant = variant
        self._seen = Seen()
        self._role = variant.party(me, records)
        self._waiting: Gather | None = None

    def __len__(self) -> int:
        """The number of respondents."""
        return len(self.records)

    def ask(self, question: Message, *, kind: type[M]) -> M:
        """Answer a question as the party does.

        Args:
            question: the aggregator's question.
            kind: the kind of the answer.

        Raises:
            CannotTabulateError: it waits for another member, or sends anything but one message of
                this kind to the aggregator.
            PrivacyError: it refuses.
        """
        awaited = self._waiting or self._run(None)[0]
        if awaited is None or awaited.kind is not type(question):
            what = "nothing" if awaited is None else f"{awaited.kind.kind()!r}"
            raise self._unfit(f"awaits {what} where it is asked {question.kind()!r}")
        self._seen.add(AGGREGATOR, question)
        self._waiting, said = self._run({AGGREGATOR: question})
        if len(said) != 1 or not isinstance(said[0], kind):
            kinds = ", ".join(message.kind() for message in said) or "nothing"
            raise self._unfit(f"answers {question.kind()!r} with {kinds}, not one {kind.kind()!r}")
        self.said += said
        return said[0]

    def tells(self) -> list[PrivacyEvent]:
        """Events of each of its messages about a respondent, with the further ones."""
        return [*(self._variant.reveals(said, self._seen) for said in self.said), *self.told]

    def close(self) -> None:
        """End the role where it waits."""
        self._role.close()

    def _run(self, given: Any) -> tuple[Gather | None, list[Message]]:
        """Run the role until it waits: the gather, or None at its end, and the messages sent."""
        said: list[Message] = []
        while True:
            try:
                effect = self._role.send(given)
            except StopIteration:
                return None, said
            given = None
            if isinstance(effect, Send):
                if effect.recipients != (AGGREGATOR,):
                    raise self._unfit("speaks to others than the aggregator")
                said.append(effect.message)
            elif isinstance(effect, Gather) and effect.senders == (AGGREGATOR,):
                return effect, said
            else:
                raise self._unfit("waits for others than the aggregator")

    def _unfit(self, what: str) -> CannotTabulateError:
        return CannotTabulateError(
            f"variant {self._variant.name!r} cannot be tabulated: its party {what}"
        )


def number_vector(message: Message, variant: str) -> Totals:
    """All numbers of a message in one vector, field by field.

    Args:
        message: the result of some parties.
        variant: the name of its variant.

    Raises:
        CannotTabulateError: a field is neither an integer nor an array of integers.
    """
    parts = []
    for field in fields(message):
        value = getattr(message, field.name)
        array = np.asarray(value)
        if isinstance(value, bool) or array.dtype.kind not in "iu":
            raise CannotTabulateError(
                f"variant {variant!r} cannot be tabulated: field {field.name!r} of "
                f"{message.kind()!r} is neither an integer nor an array of integers"
            )
        parts.append(array.reshape(-1).astype(np.int64))
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def with_numbers(message: M, totals: Totals) -> M:
    """A message of the same shapes with other numbers, the inverse of ``number_vector``.

    Raises:
        ValueError: another number of numbers.
    """
    values: dict[str, Any] = {}
    start = 0
    for field in fields(message):
        shape = np.shape(getattr(message, field.name))
        stop = start + int(np.prod(shape, dtype=np.int64))
        part = totals[start:stop]
        values[field.name] = part.reshape(shape) if shape else int(part[0])
        start = stop
    if start != len(totals):
        raise ValueError(f"{len(totals)} numbers: expected {start}")
    return type(message)(**values)
