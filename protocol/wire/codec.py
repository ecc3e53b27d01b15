"""Messages and envelopes to bytes and back: strict, bounded, canonical."""

from __future__ import annotations

import functools
import math
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NoReturn, cast

import msgspec
import numpy as np
from msgspec.structs import FieldInfo

from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.messages import (
    BOX_BYTES,
    CLOSING_MEMBERS,
    KERNEL_KINDS,
    SCALAR_BYTES,
    Boxed,
    Envelope,
    Message,
    PartyId,
    boxed_form,
)
from protocol.wire.arrays import ArraySpec, Named, encode_message, named_number, unpack
from protocol.wire.canonical import MALFORMED, canonical
from protocol.wire.schemas import Field, Float, KindSchema, make_schema, types_in

ENVELOPE_BYTES = 512
"""The most bytes of an envelope beside its body."""

_REMEMBERED = 64
_REMEMBERED_BYTES = 1 << 25
# A scalar of a few bytes is an object of some dozens.
_AS_OBJECTS = 8
_WORTH_REMEMBERING = 64
# A round, and the lengths of a body and a box.
_BESIDE_BOX = 16
# Kept with an envelope, never on the wire: the codec that made it, and its message.
_ENCLOSED = "enclosed"
_UNKNOWN = (None, None)
_UNENCODABLE = (
    NotImplementedError,
    TypeError,
    ValueError,
    OverflowError,
    RecursionError,
    msgspec.MsgspecError,
)
_encode_envelope = msgspec.msgpack.Encoder().encode
_envelopes = msgspec.msgpack.Decoder(Envelope)


Seal = Callable[[PartyId, bytes, bytes], bytes]
"""Seals for a member, named first, a content that is bound to what comes last."""

Unseal = Callable[[bytes, bytes], bytes]
"""Opens a box, bound to what comes last."""


def _unknown(name: str) -> NoReturn:
    raise LocalProtocolError(f"bound {name!r}: expected a number")


class Kind:
    """A kind of message of a variant: its class and the bounds of its fields.

    Args:
        message: the class.
        arrays: for every field that is an array, its ``ArraySpec``.
        scalar_bytes: the most bytes of all other fields together.
        named: the numbers of the names in these; none by default.
    """

    __slots__ = ("_floats", "_path", "arrays", "decoder", "max_bytes", "message", "name", "schema")

    def __init__(
        self,
        message: type[Message],
        *,
        scalar_bytes: int = SCALAR_BYTES,
        named: Callable[[str], Named] = _unknown,
        **arrays: ArraySpec,
    ) -> None:
        fields = _field_names(message)
        declared = {f.name for f in fields if _is_array(f.type)}
        if declared != arrays.keys():
            raise LocalProtocolError(
                f"kind {message.kind()!r} has arrays {sorted(declared)}, but specifications for "
                f"{sorted(arrays)}"
            )
        self.message = message
        self.name = message.kind()
        self.arrays: Mapping[str, ArraySpec] = {
            field: spec.resolved(named) for field, spec in arrays.items()
        }
        self.max_bytes = scalar_bytes + sum(spec.max_bytes for spec in self.arrays.values())
        self.decoder = msgspec.msgpack.Decoder(message, dec_hook=unpack)
        self.schema = make_schema(message, self.arrays, max_bytes=self.max_bytes)
        described = zip(fields, self.schema.fields, strict=True)
        self._floats = tuple(field.name for field, kind in described if _has_floats(kind))
        self._path = {f"$[{i}]": f.name for i, f in enumerate(fields)}

    @classmethod
    def of(cls, message: type[Message], named: Callable[[str], Named]) -> Kind:
        """A kind as its class declares it.

        Args:
            message: the class; each array field is annotated with an ``ArraySpec``.
            named: the numbers of the names in it.

        Raises:
            LocalProtocolError: an array field without an ``ArraySpec``.
        """
        scalar_bytes = message.scalar_bytes
        if isinstance(scalar_bytes, str):
            scalar_bytes = named_number(named(scalar_bytes))
        arrays = {
            field.name: declared
            for field in _field_names(message)
            for declared in getattr(field.type, "__metadata__", ())
            if isinstance(declared, ArraySpec)
        }
        return cls(message, scalar_bytes=scalar_bytes, named=named, **arrays)

    def check(self, message: Message) -> None:
        """Refuse arrays that do not fit and numbers that are not finite; names the field."""
        for field in self._floats:
            if not _is_finite(getattr(message, field)):
                raise RemoteProtocolError("expected a finite number", field=f"{self.name}.{field}")
        for field, spec in self.arrays.items():
            spec.check(getattr(message, field), f"{self.name}.{field}")

    def failed_field(self, error: msgspec.ValidationError) -> str:
        """The field that a validation error is about."""
        place = re.search(r"\$\[\d+\]", str(error))
        return f"{self.name}.{self._path.get(place[0], '?')}" if place else self.name


@functools.lru_cache(maxsize=256)
def _field_names(message: type[Message]) -> tuple[FieldInfo, ...]:
    # Every member of a session makes its own kinds, and reading annotations takes long.
    return msgspec.structs.fields(message)


def _is_array(annotation: object) -> bool:
    return getattr(annotation, "__origin__", annotation) is np.ndarray


def _has_floats(field: Field) -> bool:
    return any(isinstance(found, Float) for found, _ in types_in([field]))


def _is_finite(value: object) -> bool:
    """Check whether all floats in a value are finite numbers."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.astuple(value)
    return not isinstance(value, tuple | list) or all(map(_is_finite, value))


class Codec:
    """Encodes and decodes the kinds of one variant, and no others.

    Args:
        kinds: the variant's own; the kernel's are added.
        members: how many the roster has; it bounds the kernel's bitmaps.
    """

    def __init__(self, kinds: Iterable[Kind], *, members: int) -> None:
        bitmap = SCALAR_BYTES + 2 * (min(members, CLOSING_MEMBERS) // 8 + 1)
        # As roles say them, and as they travel.
        self._said = {kind.name: kind for kind in kinds}
        self._kinds = {name: _travelling(kind) for name, kind in self._said.items()}
        for message in KERNEL_KINDS:
            if message.kind() in self._kinds:
                raise LocalProtocolError(f"kind {message.kind()!r} belongs to the kernel")
            most = max(bitmap, int(message.scalar_bytes))
            self._said[message.kind()] = self._kinds[message.kind()] = Kind(
                message, scalar_bytes=most
            )
        self._recent: OrderedDict[bytes, Message] = OrderedDict()
        self._recent_bytes = 0

    @property
    def names(self) -> tuple[str, ...]:
        """All kinds, the kernel's last."""
        return tuple(self._kinds)

    def about(self, name: str) -> str:
        """Description of a kind of message: the first paragraph of its class's docstring.

        Empty for an unknown kind, or a class without a docstring.
        """
        kind = self._kinds.get(name)
        first = ((kind and kind.message.__doc__) or "").strip().partition("\n\n")[0]
        return " ".join(first.replace("``", "").split()).removesuffix(".")

    @property
    def schemas(self) -> tuple[KindSchema, ...]:
        """Schemas of every kind, the kernel's last."""
        return tuple(kind.schema for kind in self._kinds.values())

    @property
    def max_body(self) -> int:
        """The most bytes that the body of any envelope takes."""
        return max(kind.max_bytes for kind in self._kinds.values())

    @property
    def max_envelope(self) -> int:
        """The most bytes that any encoded envelope takes: the cap of a frame."""
        return self.max_body + ENVELOPE_BYTES

    def encode(self, message: Message) -> bytes:
        """Encode a message of this side.

        Raises:
            LocalProtocolError: a kind that the variant does not declare, or a forbidden value.
        """
        return self._encoded(message, self._kinds)[0]

    def content(self, message: Message) -> bytes:
        """Encode the content of a box: a message of any kind of the variant.

        Raises:
            LocalProtocolError: as ``encode``.
        """
        return self._encoded(message, self._said)[0]

    def read(self, name: str, content: bytes) -> Message:
        """Decode the content of a box, a message of kind ``name``.

        Raises:
            RemoteProtocolError: as ``decode``.
        """
        kind = self._said[name]
        if len(content) > kind.max_bytes:
            raise RemoteProtocolError(
                f"{len(content)} B, at most {kind.max_bytes} allowed", field=name
            )
        return self._decode(kind, content)

    def unseal(self, envelope: Envelope, boxed: Boxed, opener: Unseal) -> Message:
        """Decode a message of a sealed kind for its reader.

        Args:
            boxed: the envelope's body as all others read it.
            opener: opens boxes for its recipient.

        Raises:
            RemoteProtocolError: it does not open, differs outside and inside, or as ``decode``.
        """
        bound = _bound(envelope.sender, envelope.recipient, boxed)
        message = self.read(envelope.kind, opener(boxed.box, bound))
        if getattr(message, "round", None) != getattr(boxed, "round", None):
            raise RemoteProtocolError("the round inside is another", field=envelope.kind)
        return message

    def held(self, message: Message) -> dict[str, type[Message]]:
        """The fields of a message that are boxes, and the kind that each holds."""
        kind = self._said[message.kind()]
        return {f: spec.holds for f, spec in kind.arrays.items() if spec.holds is not None}

    def _box(
        self, message: Message, content: bytes, sender: PartyId, recipient: PartyId, seal: Seal
    ) -> bytes:
        form = cast("type[Boxed]", self._kinds[message.kind()].message)
        rounds = {"round": message.round} if hasattr(message, "round") else {}
        empty = form(**rounds, box=b"")
        box = seal(recipient, content, _bound(sender, recipient, empty))
        return self.encode(msgspec.structs.replace(empty, box=box))

    def enclose(
        self,
        message: Message,
        *,
        session: bytes,
        sender: PartyId,
        recipients: Sequence[PartyId],
        seq: int,
        seal: Seal | None = None,
    ) -> list[Envelope]:
        """Encode a message once, and put it into an envelope for each recipient.

        Args:
            seq: the number of the first envelope.
            seal: seals a message of a sealed kind for each of them.

        Raises:
            LocalProtocolError: as ``encode``, or there is no ``seal`` for a sealed kind.
        """
        kind = message.kind()
        if message.sealed:
            if seal is None:
                raise LocalProtocolError(f"{kind!r} is sealed: its sender has no key to seal with")
            content = self.content(message)
            bodies = [self._box(message, content, sender, name, seal) for name in recipients]
            return [
                Envelope(session, sender, name, number, kind, body)
                for number, (name, body) in enumerate(zip(recipients, bodies, strict=True), seq)
            ]
        body, decoded = self._encoded(message, self._kinds)
        envelopes = [
            Envelope(session, sender, recipient, number, kind, body)
            for number, recipient in enumerate(recipients, seq)
        ]
        if len(envelopes) == 1:
            # A broadcast message is remembered by its body.
            envelopes[0].__dict__[_ENCLOSED] = self, decoded
        return envelopes

    def open(self, envelope: Envelope) -> Message:
        """Decode an envelope's body, unless this very codec has enclosed it.

        Raises:
            RemoteProtocolError: as ``decode``.
        """
        codec, message = envelope.__dict__.get(_ENCLOSED, _UNKNOWN)
        return message if codec is self else self.decode(envelope.kind, envelope.body)

    def check_size(self, name: str, size: int) -> None:
        """Refuse a kind that is not declared, or a body too large for it, without decoding.

        Raises:
            RemoteProtocolError: names the kind.
        """
        kind = self._kinds.get(name)
        if kind is None:
            raise RemoteProtocolError(f"{name!r:.80} is not a kind of this variant", field="kind")
        if size > kind.max_bytes:
            raise RemoteProtocolError(f"{size} B, at most {kind.max_bytes} allowed", field=name)

    def decode(self, name: str, body: bytes) -> Message:
        """Decode the body of an envelope of kind ``name``.

        The latest bodies are remembered, 32 MiB of them at most, so that a broadcast is decoded
        once and not once per recipient; messages are immutable and their arrays read-only.

        Raises:
            RemoteProtocolError: an unknown kind, an unknown or missing field, a wrong type, dtype,
                shape or value, trailing bytes, an encoding that is not canonical, too many bytes.
                The error names the field.
        """
        self.check_size(name, len(body))
        kind = self._kinds[name]
        if len(body) < _WORTH_REMEMBERING:
            return self._decode(kind, body)
        message = self._recent.get(body)
        if message is None or type(message) is not kind.message:
            decoded = self._decode(kind, body)
            if message is None:
                self._recent_bytes += len(body)
            message = self._recent[body] = decoded
            while len(self._recent) > _REMEMBERED or (
                self._recent_bytes > _REMEMBERED_BYTES and len(self._recent) > 1
            ):
                oldest, _ = self._recent.popitem(last=False)
                self._recent_bytes -= len(oldest)
        return message

    def held_bytes(self, message: Message, body: bytes) -> int:
        """Estimated bytes of a decoded message, with arrays that are views of its body."""
        kind = self._kinds[message.kind()]
        return len(body) if kind.arrays else _AS_OBJECTS * len(body)

    def _encoded(self, message: Message, kinds: Mapping[str, Kind]) -> tuple[bytes, Message]:
        """A message's encoding, and the message that its recipient decodes."""
        kind = kinds.get(message.kind())
        if kind is None or type(message) is not kind.message:
            raise LocalProtocolError(f"{message.kind()!r} is not a kind of this variant")
        try:
            body = encode_message(message)
            # A message that a recipient would refuse is refused here, where it can be fixed.
            decoded = self._decode(kind, body)
        except (RemoteProtocolError, *_UNENCODABLE) as error:
            raise LocalProtocolError(f"cannot send {kind.name!r}: {error}") from error
        if len(body) > kind.max_bytes:
            raise LocalProtocolError(f"{kind.name!r} takes {len(body)} B, over {kind.max_bytes}")
        return body, decoded

    def _decode(self, kind: Kind, body: bytes) -> Message:
        try:
            message: Message = kind.decoder.decode(body)
        except msgspec.ValidationError as error:
            raise RemoteProtocolError(str(error), field=kind.failed_field(error)) from error
        except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as error:
            raise RemoteProtocolError(str(error), field=kind.name) from error
        kind.check(message)
        if encode_message(message) != body:
            raise RemoteProtocolError("the encoding is not canonical", field=kind.name)
        return message


def _travelling(kind: Kind) -> Kind:
    """A kind as it is on the wire: a sealed one is a box.

    Raises:
        LocalProtocolError: an open kind holds boxes.
    """
    if kind.message.sealed:
        longest = kind.max_bytes + BOX_BYTES
        form = boxed_form(kind.message, longest)
        return Kind(form, scalar_bytes=longest + _BESIDE_BOX)
    if any(spec.holds is not None for spec in kind.arrays.values()):
        raise LocalProtocolError(
            f"kind {kind.name!r} holds boxes and is not sealed: whoever sees a box can hand in a "
            "copy of it, and the copy shows in the result"
        )
    return kind


def _bound(sender: PartyId, recipient: PartyId, boxed: Boxed) -> bytes:
    """Binding of the box of a sealed kind."""
    outside = (sender, recipient, boxed.kind(), str(getattr(boxed, "round", "")))
    return "\0".join(outside).encode()


def encode_envelope(envelope: Envelope) -> bytes:
    """The only encoding of an envelope, in frames and for digests."""
    return _encode_envelope(envelope)


def decode_envelopes(
    encoded: list[bytes],
) -> tuple[list[Envelope], RemoteProtocolError | None]:
    """Decode envelopes up to the first malformed one; returns its error too."""
    try:
        envelopes = [*map(_envelopes.decode, encoded)]
        if [*map(_encode_envelope, envelopes)] == encoded:
            return envelopes, None
    except MALFORMED:
        pass
    envelopes = []
    for each in encoded:
        try:
            envelopes.append(decode_envelope(each))
        except RemoteProtocolError as error:
            return envelopes, error
    return envelopes, None


def decode_envelope(encoded: bytes) -> Envelope:
    """Decode an envelope; its body stays encoded.

    Raises:
        RemoteProtocolError: malformed, or not the one encoding of what it says.
    """
    try:
        return canonical(encoded, _envelopes, what="envelope")
    except ValueError as error:
        raise RemoteProtocolError(str(error), field="envelope") from error
