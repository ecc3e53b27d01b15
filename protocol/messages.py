"""Ids, messages and envelopes, as every protocol uses them."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, NewType, cast

import msgspec

PartyId = NewType("PartyId", str)

AGGREGATOR = PartyId("aggregator")
"""The party that asks and publishes. Every survey has one."""

RECORD = PartyId("record")
"""The addressee of messages that are only recorded: closings and the published result."""

SWITCH = PartyId("switch")
"""The sender of notices about links; never a member of a roster."""

WITHDRAWN = "withdrawn"
"""The first word of a departure's reason if the organiser withdrew the place."""

SESSION_BYTES = 32
"""The length of a session's id: a hash of its terms and its roster."""

NONCE_BYTES = 16
"""The length of the nonce that distinguishes sessions of the same terms."""

_ID = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def party_id(text: str) -> PartyId:
    """Check a party's name: a DNS label, so that a certificate can carry it.

    Raises:
        ValueError: not 1 to 63 of ``a-z 0-9 -``, or a hyphen at an end, or a reserved name.
    """
    if not _ID.fullmatch(text):
        raise ValueError(f"party id {text!r}: expected 1 to 63 of a-z, 0-9 and inner hyphens")
    if text in (RECORD, SWITCH):
        raise ValueError(f"party id {text!r} is reserved")
    # Only the built-in type travels; numpy's text is a type of its own.
    return PartyId(str.__str__(text))


SCALAR_BYTES = 4096
"""The most bytes of a message beside its arrays, unless its kind states another number."""


class Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, dict=True):
    """Message from one role to another. Subclasses are the kinds of message of a variant.

    A kind is named by its class. A kind that one party sends to another more than once carries an
    integer field ``round``, so that a late message is never taken for the next one.
    """

    scalar_bytes: ClassVar[int | str] = SCALAR_BYTES
    """The most bytes beside the arrays, or the name of the variant's attribute with that number."""

    sealed: ClassVar[bool] = False
    """True if only the recipient can read it: all others see a ``Boxed`` of its name."""

    @classmethod
    def kind(cls) -> str:
        """The name of this kind on the wire and in the transcript."""
        return cls.__name__


BOX_BYTES = 48
"""The bytes that a box takes beside its content."""


class Boxed(Message, frozen=True):
    """A message of a sealed kind as all but its reader see it: its round, if it has one, and a box.

    Subclasses are made by ``boxed_form``, one for each kind.
    """

    content: ClassVar[type[Message]]

    box: bytes

    def blank(self) -> Message:
        """A message of the kind with the round alone, and unknown content."""
        found = _blank(self.content)()
        if hasattr(self, "round"):
            msgspec.structs.force_setattr(found, "round", self.round)
        return found


@functools.lru_cache(maxsize=256)
def boxed_form(kind: type[Message], longest: int) -> type[Boxed]:
    """The form that a sealed kind has on the wire.

    Args:
        longest: the most bytes of a box.
    """
    fields: list[tuple[str, Any]] = []
    if "round" in kind.__struct_fields__:
        fields.append(("round", Count))
    form = msgspec.defstruct(
        kind.kind(),
        [*fields, ("box", Annotated[bytes, msgspec.Meta(max_length=longest)])],
        bases=(Boxed,),
        namespace={"content": kind, "__doc__": kind.__doc__},
        frozen=True,
    )
    return cast("type[Boxed]", form)


@functools.lru_cache(maxsize=256)
def _blank(kind: type[Message]) -> type[Message]:
    fields = kind.__struct_fields__
    unknown = frozenset(fields) - {"round"}

    def read(self: Message, name: str) -> object:
        if name in unknown:
            raise AttributeError(f"{kind.kind()!r} is sealed: its {name!r} is not known here")
        return object.__getattribute__(self, name)

    form = msgspec.defstruct(
        kind.kind(),
        [(field, Any, None) for field in fields],
        bases=(kind,),
        namespace={"__getattribute__": read},
        frozen=True,
    )
    return cast("type[Message]", form)


NAME_CHARACTERS = 255
"""The longest name of a member, a link or a kind that is read at all; ids are shorter."""

MAX_NUMBER = (1 << 63) - 1
"""The largest number that a record holds: every reader has an integer type for it."""

NO_ROUND = -1
"""The round, in a closing or a head, of a kind that carries none."""

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_NUMBER)]
"""A number of a record, from 0 to ``MAX_NUMBER``."""

Name = Annotated[PartyId, msgspec.Meta(max_length=NAME_CHARACTERS)]


class Envelope(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, dict=True):
    """One encoded message under way.

    ``seq`` counts the sender's envelopes from 0, whoever they go to, so gaps and repeats show.
    ``body`` is the encoded message: recipients of one broadcast share it.
    """

    session: Annotated[bytes, msgspec.Meta(max_length=NAME_CHARACTERS)]
    sender: Name
    recipient: Name
    seq: int
    kind: Annotated[str, msgspec.Meta(max_length=NAME_CHARACTERS)]
    body: bytes

    def __repr__(self) -> str:
        return (
            f"<Envelope: {self.sender} #{self.seq} to {self.recipient}, "
            f"{self.kind} of {len(self.body)} B>"
        )


CLOSING_MEMBERS = 4096
"""The members that one ``Closed`` is about; the last of a wait's may be about fewer."""


class Closed(Message, frozen=True):
    """Said to the record when a ``gather`` returns: who was counted.

    ``counted`` and ``awaited`` (who was asked for) are bitmaps over the members from the place
    ``first`` of the roster on, ``CLOSING_MEMBERS`` at most: a wait is closed range by range, in
    order (``protocol.session.closings``).
    """

    of: str
    round: Annotated[int, msgspec.Meta(ge=NO_ROUND, le=MAX_NUMBER)]
    first: Count
    awaited: Annotated[bytes, msgspec.Meta(max_length=CLOSING_MEMBERS // 8)]
    counted: Annotated[bytes, msgspec.Meta(max_length=CLOSING_MEMBERS // 8)]


class Declined(Message, frozen=True):
    """A party's refusal to go on; it will send nothing more.

    The details stay with the party: they could tell what it holds, or what it heard.
    """

    why: Literal["terms", "message"]

    @property
    def reason(self) -> str:
        """Reason in words."""
        return REFUSALS[self.why]


REFUSALS: Mapping[str, str] = MappingProxyType(
    {
        "terms": "it did not agree to what it was asked",
        "message": "it was sent something that breaks the protocol",
    }
)
"""Meaning of each reason for a refusal."""


class Left(Message, frozen=True):
    """The switch's notice that a party is gone and nothing more will come from it."""

    party: PartyId
    reason: str


class Wait(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A wait of a party's role that has returned, as its head lists it.

    Args:
        said: the number of envelopes that the party had sent by then.
        kind: the kind of the awaited messages.
        round: their round; ``NO_ROUND`` for a kind without rounds.
        heard: (place of the sender on the roster, seq) of each answer, by rising place.
    """

    said: Count
    kind: Annotated[str, msgspec.Meta(max_length=NAME_CHARACTERS)]
    round: Annotated[int, msgspec.Meta(ge=NO_ROUND, le=MAX_NUMBER)]
    heard: tuple[tuple[Count, Count], ...]


HEAD_BYTES = 1 << 17
"""The most bytes of a head."""


class Head(Message, frozen=True):
    """A party's last word, said to the record: it signs all that it has said and heard before.

    ``waits`` are those of its role, in the order in which they returned; ``signature`` is by its
    identity key (``protocol.session.heads``).
    """

    scalar_bytes: ClassVar[int | str] = HEAD_BYTES

    waits: tuple[Wait, ...]
    signature: Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]


KERNEL_KINDS: tuple[type[Message], ...] = (Closed, Declined, Left, Head)
"""Kinds that every variant has without declaring them."""


ROLE_STREAM = "role"
"""The purpose of the stream that a role draws from."""


DONE = "done"
"""The ending of a role that came to its end."""


LINK_CLOSED = "closed its link"
"""The reason that others get when a member has ended by itself, well or badly."""


NEVER_CAME = "never came"
"""The reason for the departure of a party that has not connected while it was waited for."""


OUT_OF_TIME = "the survey closed before it answered"
CLOSED_EARLY = "the survey was closed before its time"
"""Reasons for the departure of a party that has not answered when its survey closes."""


IDENTITY_STREAM = "identity"
"""The purpose of the stream that a simulated member's identity key comes from."""
