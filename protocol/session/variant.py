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
    """Claim about a variant's privacy, to be shown next to what a record shows.

    Args:
        source: the publication, and the place in it.
        says: the claim in words.
        epsilon: the figure claimed, in nats; None where no bound is claimed.
        per: the subject of the figure: all messages about one ``record``, or a single ``answer``,
            which is one draw of a randomizer.
        kinds: the kinds of message that it is about; all if empty.
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
        respondents: (k,) the row of the party's records that each report is about.
        reports: ``(k, *report.shape)``.
        inputs: (n,) the randomizer's input for each of some n records; by default the combination
            of the event's attributes.
    """

    event: Randomized
    respondents: NDArray[np.integer]
    reports: NDArray[np.generic]
    inputs: NDArray[np.integer] | None = None


class Variant(msgspec.Struct, frozen=True, kw_only=True, dict=True, forbid_unknown_fields=True):
    """Base of all variants. The fields are public parameters: the transcript's header holds them.

    Args:
        survey: the attributes asked for.
        quorum: the fewest parties that must answer; None for half of them (``quorum_of``).
        patience: how long the aggregator waits for a round of answers, in seconds; None is forever.
        max_records: the most respondents that one party speaks for; it bounds a report's size.
        weights: design weights by stratum (``protocol.surveys.weights``), for a variant that
            publishes a result for each stratum; unset where all respondents count alike.

    Raises:
        ValueError: a parameter out of range, malformed weights, or a survey that is too large
            (``limits``).
    """

    name: ClassVar[str] = ""
    heeds: ClassVar[tuple[type[Message], ...] | None] = None
    """The kinds that ``reveals`` looks up in ``seen``, which keeps no others; None keeps all."""
    messages: ClassVar[tuple[type[Message], ...]] = ()
    """The kinds of message that are sent, each with the bounds of its fields."""
    public: ClassVar[tuple[type[Message], ...]] = ()
    """The kinds that depend on nobody's records."""
    derived: ClassVar[tuple[type[Message], ...]] = ()
    """The kinds that follow from what their sender received, such as the result."""
    whole_roster: ClassVar[bool] = False
    """True if a party needs the whole roster, to send to others or for their keys. Otherwise it
    knows the aggregator, the services and itself.
    """
    roles: ClassVar[tuple[str, ...]] = ()
    """The roles of the services beside the aggregator, such as ``("server", "server")``. They hold
    no records. Each role is an ``async def`` of its name that takes a ``Me``."""
    code: ClassVar[bytes | None] = None
    """The SHA-256 of the file that the class is in, which the session's id depends on. None for a
    built-in variant, or where no file is known."""
    untabulated: ClassVar[str] = "it has no method 'stages'"
    """The reason why respondents cannot be counted in cohorts, if they cannot."""

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
        # Before a subclass computes anything: a header may come from anybody.
        check_workload(len(self.survey.attributes), self.workload())
        check_respondents(1, self.max_records)

    def workload(self) -> Workload:
        """Workload of this variant for its survey, computed from its sizes alone."""
        return NOTHING

    def quorum_of(self, parties: int) -> int:
        """Number of parties that must answer: ``quorum``, or half of the parties, rounded up."""
        return (parties + 1) // 2 if self.quorum is None else self.quorum

    @property
    def stratified(self) -> bool:
        """True if results are published by stratum, so that strata can have weights.

        The decorator ``protocol.variants.reports.by_stratum.weighted`` of ``estimate`` marks it.
        """
        return bool(getattr(type(self).estimate, "stratified", False))

    @property
    def strata(self) -> tuple[str, ...]:
        """The strata with weights, sorted; empty where all respondents count alike."""
        return () if self.weights is UNSET else tuple(sorted(self.weights))

    def stratum(self, party: str) -> str:
        """The stratum of a party, by its name on the roster (``find_stratum``).

        Raises:
            SurveyError: the party is in no stratum.
        """
        return find_stratum(party, {} if self.weights is UNSET else self.weights)

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        """The kinds of message among an aggregator and this many parties.

        They are ``messages``, with the bounds of their fields. A name in a bound is an attribute of
        this variant, or ``respondents``, the most that the parties can speak for.
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
        """The role of the aggregator; the message that it returns is the published result."""
        raise NotImplementedError

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        """Event of a message about its sender's records, given what the sender had received.

        A message that is neither ``public`` nor ``derived`` is taken to reveal all attributes,
        unless a subclass says otherwise.
        """
        if isinstance(message, self.public):
            return Public()
        return Derived() if isinstance(message, self.derived) else Plain(self.survey.names)

    def drawn(
        self, message: Message, event: PrivacyEvent, records: Records
    ) -> Sequence[Drawn] | None:
        """The reports in a message, to be checked against the laws that its event declares.

        By default None: then they are looked for in the message's arrays. An array fits that has a
        row per respondent, with a report or, for several randomizers, a report of each side by
        side.

        Args:
            message: the message.
            event: its event, by ``reveals``.
            records: the records of ``Drawn.inputs``, where those are not the default.
        """
        return None

    def estimate(self, result: Message) -> Estimate:
        """Estimate about the respondents from the published result."""
        raise NotImplementedError

    def alone(self, contribution: Message) -> Message | None:
        """The result that one party's contribution would give by itself, as ``estimate`` takes it.

        Auditors compare parties by it. None, the default, if a single contribution gives no
        estimate, or if this one is malformed.
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

        It yields a question and is sent the sum of the cohorts' totals, by ``count``. It returns
        the result, as ``estimate`` takes it. Counts in it may exceed their type on the wire.

        Args:
            people: the number of respondents.

        Raises:
            CannotTabulateError: an answer depends on more than the question and the respondent's
                own record; the error says why.
        """
        raise CannotTabulateError(f"variant {self.name!r} cannot be tabulated: {self.untabulated}")
        yield

    def count(self, stage: Stage, parties: Iterable[Respondents]) -> Totals:
        """Total of some parties' answers to a stage's question.

        Args:
            stage: as ``stages`` yielded it.
            parties: the parties to ask, each once, in this order.
        """
        raise NotImplementedError

    @property
    def contribution(self) -> type[Message] | None:
        """The kind of message that puts a party into the estimate.

        A party that was counted with one, in any round, is in the estimate. None stands for the
        kind that the aggregator waits for last.
        """
        return None

    def most(self) -> float:
        """Bound on a respondent's loss over all that an honest party ever answers, in nats.

        It holds whatever the aggregator asks, since the party refuses the rest.
        ``protocol.testing`` compares it with the ledgers of its runs. Infinite by default.
        """
        return math.inf

    def most_among(self, honest: int, delta: float) -> Cost:
        """The same bound among honest parties, to which a party may consent (``Spending``).

        By default the bound that holds against any coalition.

        Args:
            honest: the number of parties of a sum that are taken to be honest; 0 for none.
            delta: the delta at which coins are judged.
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
        """A published result, once its kind is checked.

        Raises:
            LocalProtocolError: it is of another kind.
        """
        if not isinstance(result, kind):
            raise LocalProtocolError(f"{result.kind()!r} is not a result of {self.name!r}")
        return result

    def claims(self) -> tuple[Claim, ...]:
        """Claims of the protocol's authors about its privacy."""
        return ()


def check_roles(variant: Variant) -> None:
    """Refuse a service's role without a method or with a taken name, and sealed kinds in ``heeds``.

    Raises:
        ValueError: names the role or the kind.
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
    """Bound on a respondent's loss, for all questions (``Variant.most``)."""
    most, names = variant.most(), variant.survey.names
    why = () if math.isfinite(most) else (f"all that may be asked about {', '.join(names)}",)
    return Loss(most, dict.fromkeys(names, most), why)


def heeded(variant: Variant, kind: type[Message]) -> bool:
    """True if the event of a message may depend on a received message of this kind."""
    return not kind.sealed and (variant.heeds is None or kind in variant.heeds)


def settled(variant: Variant) -> bool:
    """True if the events of messages depend on the parameters alone, by ``heeds``."""
    return variant.heeds == ()


def message_event(
    variant: Variant, message: Message, seen: Seen, recipient: PartyId
) -> PrivacyEvent:
    """Event of any message, the kernel's kinds included.

    - A message of a sealed kind reveals its event to the recipient alone. The event depends on its
      kind and round only, since nobody else can read more of it.
    - A closing and a refusal depend on no record, unless a role does what it must not.
    - A head follows from what its sender has sent and received. It confirms a right guess of a
      report that can be guessed.
    - A member that sends the switch's notices may reveal anything.
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
    """The error for a sealed kind with an event that depends on the sealed content."""
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
        # A user's own variant may not be prepared for all parameters.
        why = f"{type(error).__name__}: {error}"
        raise SurveyError(
            f"variant {cls.name!r} fails with the header's parameters: {why}"
        ) from error
