"""A variant: one whole protocol, as its messages, its roles, and what every message reveals."""

from __future__ import annotations

import inspect
import math
from collections.abc import Generator, Iterable, Sequence
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import force_setattr
from numpy.typing import NDArray

from protocol.accounting.accountants import Loss
from protocol.accounting.events import Derived, Plain, PrivacyEvent, Public, Randomized, Sealed
from protocol.accounting.spending import Cost
from protocol.errors import (
    CannotTabulateError,
    LocalProtocolError,
    PrivacyError,
    ProtocolError,
    SurveyError,
)
from protocol.estimators.estimate import Estimate
from protocol.messages import Boxed, Closed, Declined, Head, Left, Message, PartyId
from protocol.session.roles import Me, Seen
from protocol.session.so_far import SoFar
from protocol.session.tabulation import Respondents, Stage, Totals
from protocol.surveys.limits import NOTHING, Workload, check_respondents, check_workload
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey
from protocol.surveys.weights import check_weights, find_stratum
from protocol.wire.codec import Kind
from protocol.wire.undecoded import Undecoded

V = TypeVar("V", bound="Variant")
M = TypeVar("M", bound=Message)

Probability = Annotated[float, Meta(gt=0, lt=1)]
"""A field of a variant between 0 and 1."""

Epsilon = Annotated[float, Meta(gt=0)]
"""A field of a variant that is a privacy loss, in nats."""


class Claim(msgspec.Struct, frozen=True):
    """Claim of somebody about a variant's privacy, to be shown beside what the record says.

    Args:
        source: who says it, and where.
        says: what is said.
        epsilon: the figure claimed, in nats; None where no bound is claimed.
        per: what the figure is of: all that is told about one ``record``, or a single ``answer``,
            which is one draw of a randomizer.
        kinds: the kinds of message that it is about; all, if none is named.
    """

    source: str
    says: str
    epsilon: float | None
    per: Literal["record", "answer"] = "record"
    kinds: tuple[str, ...] = ()


class Drawn(NamedTuple):
    """Reports in a message that one randomizer drew.

    Args:
        event: the draw, as the message's event has it.
        respondents: (k,) whose each report is, a row of the party's records.
        reports: ``(k, *report.shape)``.
        inputs: (n,) which input of the randomizer each of some n records is; by default the
            combination of the event's attributes.
    """

    event: Randomized
    respondents: NDArray[np.integer]
    reports: NDArray[np.generic]
    inputs: NDArray[np.integer] | None = None


class Variant(msgspec.Struct, frozen=True, kw_only=True, dict=True, forbid_unknown_fields=True):
    """Base of all variants. The fields are public parameters: the transcript's header holds them.

    Args:
        survey: the attributes asked for.
        quorum: how many parties must answer, at least; None for half of them (``quorum_of``).
        patience: how long the aggregator waits for a round of answers, in seconds.
        max_records: the most respondents that one party speaks for; it bounds a report's size.
        weights: design weights by stratum (``protocol.surveys.weights``), of a variant that
            publishes a result for each stratum; unset where all respondents count alike.

    Raises:
        ValueError: terms that nobody can keep, weights that cannot be, or a survey that is too
            large (``limits``).
    """

    name: ClassVar[str] = ""
    heeds: ClassVar[tuple[type[Message], ...] | None] = None
    """The kinds that ``reveals`` looks for in ``seen``: no other is kept. None keeps all."""

    messages: ClassVar[tuple[type[Message], ...]] = ()
    """The kinds of message that are spoken, where each says its bounds at its fields."""
    public: ClassVar[tuple[type[Message], ...]] = ()
    """The kinds that are the same whatever anybody's records are."""
    derived: ClassVar[tuple[type[Message], ...]] = ()
    """The kinds that follow from what their sender had received: the result, above all."""
    whole_roster: ClassVar[bool] = False
    """Whether a party needs all members: to send to them, or for their keys. If not, it knows who
    serves, and itself."""
    roles: ClassVar[tuple[str, ...]] = ()
    """The services beside the aggregator, by their roles, such as ``("server", "server")``. They
    hold no records; each role is an ``async def`` of its name that takes a ``Me``."""
    code: ClassVar[bytes | None] = None
    """The SHA-256 of the file that the class is in, which the session binds; None for a built-in
    one, or where no file is known."""
    untabulated: ClassVar[str] = "it has no method 'stages'"
    """Why respondents cannot be counted in cohorts, where they cannot."""

    survey: Survey
    quorum: int | None = None
    patience: float | None = 60.0
    max_records: int = 1
    weights: dict[str, float] | UnsetType = UNSET

    def __post_init__(self) -> None:
        for name, number in (("quorum", self.quorum), ("max_records", self.max_records)):
            if number is not None and number < 1:
                raise ValueError(f"{name} {number}: expected at least 1")
        if self.patience is not None and not self.patience > 0:
            raise ValueError(f"patience {self.patience}: expected more than 0 seconds")
        if self.weights is not UNSET:
            if not self.stratified:
                raise ValueError(
                    f"weights: variant {self.name!r} publishes no result by stratum; expected a "
                    "variant with one report of each party, such as rr-independent"
                )
            check_weights(self.weights)
        check_roles(self)
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, np.generic):
                value = value.item()
                force_setattr(self, name, value)
            # The header of a transcript holds no other integers.
            if isinstance(value, int) and not -(2**63) <= value < 2**64:
                raise ValueError(f"{name} {value}: expected an integer of at most 64 bits")
        # Before a subclass lays anything out: a header may be anybody's.
        check_workload(len(self.survey.attributes), self.workload())
        check_respondents(1, self.max_records)

    def workload(self) -> Workload:
        """Workload of this variant for its survey, reckoned from its sizes alone."""
        return NOTHING

    def quorum_of(self, parties: int) -> int:
        """Number of parties that must answer: as agreed, or half of so many, rounded up."""
        return (parties + 1) // 2 if self.quorum is None else self.quorum

    @property
    def stratified(self) -> bool:
        """True if results are published by stratum, so that strata can have weights.

        They are if ``estimate`` is marked as one that takes such results (``weighted`` in
        ``protocol.variants.reports.by_stratum``).
        """
        return bool(getattr(type(self).estimate, "stratified", False))

    @property
    def strata(self) -> tuple[str, ...]:
        """The strata with weights, sorted; empty where all respondents count alike."""
        return () if self.weights is UNSET else tuple(sorted(self.weights))

    def stratum(self, party: str) -> str:
        """The stratum of a party, by its name on the roster (``find_stratum``).

        Raises:
            SurveyError: it is in none.
        """
        return find_stratum(party, {} if self.weights is UNSET else self.weights)

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        """The kinds of message that are spoken among an aggregator and this many parties.

        These are ``messages``, with the bounds that stand at their fields. A name there is that of
        an attribute of this variant, or ``respondents``: how many there can be among the parties.
        """

        def named(name: str) -> Any:
            if name == "respondents":
                return parties * self.max_records
            return attrgetter(name)(self)

        return tuple(Kind.of(message, named) for message in self.messages)

    async def party(self, me: Me, records: Records) -> None:
        """The role of a party that holds the records of one or more respondents."""
        raise NotImplementedError

    async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Message:
        """The role of the aggregator; the message it returns is published as its last word."""
        raise NotImplementedError

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        """Event of a message about its sender's records, given what the sender had seen.

        What is not ``public`` nor ``derived`` may tell everything, unless a subclass knows better.
        """
        if isinstance(message, self.public):
            return Public()
        return Derived() if isinstance(message, self.derived) else Plain(self.survey.names)

    def drawn(
        self, message: Message, event: PrivacyEvent, records: Records
    ) -> Sequence[Drawn] | None:
        """The reports in a message, for checks to hold them against the laws that it declares.

        By default None: then they are looked for in its arrays. They are found if one array fits:
        with a report of a respondent in each row or, if each sends one of several randomizers, with
        these one after the other.

        Args:
            message: what was sent.
            event: what it tells, by ``reveals``.
            records: for which ``Drawn.inputs`` are, where those are not the default.
        """
        return None

    def estimate(self, result: Message) -> Estimate:
        """Estimate about the respondents from the published result."""
        raise NotImplementedError

    def alone(self, contribution: Message) -> Message | None:
        """The result that one party's contribution would make by itself, as ``estimate`` takes it.

        It is for auditors, who compare parties. None, the default, where the contributions of
        parties say nothing one by one, or it is malformed.
        """
        return None

    def so_far(self, session: bytes) -> SoFar:
        """Follower of a survey as it goes on, for estimates before it is over.

        Args:
            session: the session's id.
        """
        return SoFar()

    def stages(self, people: int) -> Generator[Stage, Totals, Message]:
        """Stages in which the aggregator asks respondents who are counted in cohorts.

        It yields a question and is sent the sum of what ``count`` made of the cohorts' answers. It
        returns the result, as ``estimate`` takes it; there, counts may exceed their type on the
        wire.

        Args:
            people: how many respondents there are.

        Raises:
            CannotTabulateError: an answer depends on more than the question and the respondent's
                own record; it says why.
        """
        raise CannotTabulateError(f"variant {self.name!r} cannot be tabulated: {self.untabulated}")
        yield

    def count(self, stage: Stage, parties: Iterable[Respondents]) -> Totals:
        """Total of some parties' answers to a stage's question.

        Args:
            stage: as ``stages`` yielded it.
            parties: who is asked; each is to be asked once, in this order.
        """
        raise NotImplementedError

    @property
    def contribution(self) -> type[Message] | None:
        """The kind of message that puts a party into the estimate.

        Whoever was counted with one, in any round, is in it. None stands for the kind that the
        aggregator waits for last.
        """
        return None

    def most(self) -> float:
        """Bound on what any sequence of questions can cost a respondent, in nats.

        It bounds what an honest party lets itself be asked, whatever the aggregator sends: what it
        consents to, added up over all that it ever answers. ``protocol.testing`` holds it against
        the ledgers of its runs. By default nothing is promised: infinite.
        """
        return math.inf

    def most_among(self, honest: int, delta: float) -> Cost:
        """The same by what a party may consent to, where only that is bounded (``Spending``).

        By default what holds whoever conspires.

        Args:
            honest: how many parties of a sum are taken to be honest; 0 for no figure of this kind.
            delta: at which coins are judged.
        """
        return Cost(self.most())

    def check_asked(self, survey: bytes) -> None:
        """Refuse a question about another survey.

        Args:
            survey: the digest of the survey that the question is about.

        Raises:
            PrivacyError: it is not this variant's.
        """
        if survey != self.survey.digest:
            raise PrivacyError("asked about another survey than the one agreed to")

    def published(self, result: Message, kind: type[M]) -> M:
        """A published result, as of the kind that it must be.

        Raises:
            LocalProtocolError: it is of another.
        """
        if not isinstance(result, kind):
            raise LocalProtocolError(f"{result.kind()!r} is not a result of {self.name!r}")
        return result

    def claims(self) -> tuple[Claim, ...]:
        """Claims of the protocol's authors about its privacy."""
        return ()


def check_roles(variant: Variant) -> None:
    """Refuse a service's role without a method, a name that is taken, a sealed kind in ``heeds``.

    Raises:
        ValueError: says which.
    """
    for role in variant.roles:
        if not (role.isidentifier() and role.islower() and "_" not in role) or role == "record":
            raise ValueError(f"role {role!r}: expected a word of lower-case letters and digits")
        taken = hasattr(Variant, role) or role in variant.__struct_fields__
        if taken or not inspect.iscoroutinefunction(getattr(variant, role, None)):
            raise ValueError(f"role {role!r}: expected an async method {role!r} of its own")
    for kind in variant.heeds or ():
        if kind.sealed:
            raise ValueError(
                f"heeds names {kind.kind()!r}, which is sealed: nobody else could judge what "
                "follows from it"
            )


def loss_bound(variant: Variant) -> Loss:
    """Bound on a respondent's loss, whatever is asked (``Variant.most``)."""
    most, names = variant.most(), variant.survey.names
    why = () if math.isfinite(most) else (f"all that may be asked about {', '.join(names)}",)
    return Loss(most, dict.fromkeys(names, most), why)


def heeded(variant: Variant, kind: type[Message]) -> bool:
    """True if what a message tells may depend on one of this kind that its sender had seen."""
    return not kind.sealed and (variant.heeds is None or kind in variant.heeds)


def settled(variant: Variant) -> bool:
    """True if what messages are drawn with follows from the parameters alone, by ``heeds``."""
    return variant.heeds == ()


def message_event(
    variant: Variant, message: Message, seen: Seen, recipient: PartyId
) -> PrivacyEvent:
    """Event of any message, the kernel's kinds included.

    A message of a sealed kind tells it to its recipient alone. What it tells follows from its kind
    and its round: nobody else knows more of it.

    A closing says who was counted, and a refusal that others asked for too much or broke the
    protocol: neither depends on a record, unless a role does that it must not. A head follows from
    what its sender has said and heard, and of a report that can be guessed it tells whether a guess
    is right. A member that sends the switch's notices may say anything.
    """
    if isinstance(message, Closed | Declined):
        return Public()
    if isinstance(message, Head):
        return Derived()
    if isinstance(message, Left):
        return Plain(variant.survey.names)
    if isinstance(message, Boxed):
        try:
            return Sealed(recipient, variant.reveals(message.blank(), seen))
        except AttributeError as error:
            raise unjudged(message) from error
    event = variant.reveals(message, seen)
    return Sealed(recipient, event) if message.sealed else event


def unjudged(message: Message) -> LocalProtocolError:
    """The complaint of a sealed kind whose event depends on what is sealed."""
    return LocalProtocolError(
        f"{message.kind()!r} is sealed, and its event depends on what is sealed: nobody but its "
        "reader could judge it"
    )


def plain_parameters(variant: Variant) -> dict[str, Any]:
    """A variant's parameters as plain values, without the survey."""
    parameters: dict[str, Any] = msgspec.to_builtins(variant)
    parameters.pop("survey")
    return parameters


def build(cls: type[V], *, parameters: dict[str, Any], survey: dict[str, Any]) -> V:
    """The inverse of ``plain_parameters``: a variant from a transcript's header.

    Raises:
        SurveyError: the parameters are not those of this variant.
    """
    try:
        return msgspec.convert({**parameters, "survey": survey}, cls)
    except (ProtocolError, msgspec.ValidationError, ValueError) as error:
        why = str(Undecoded.of(error))
        raise SurveyError(f"the header does not fit variant {cls.name!r}: {why}") from error
    except Exception as error:
        # A variant of a user's own may not have reckoned with anybody's parameters.
        why = f"{type(error).__name__}: {error}"
        raise SurveyError(
            f"variant {cls.name!r} fails with the header's parameters: {why}"
        ) from error
