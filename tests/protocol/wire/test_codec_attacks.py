"""Arbitrary bytes: nothing but ``RemoteProtocolError`` comes of them."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import PartyId, RemoteProtocolError
from protocol.messages import Envelope
from protocol.wire.codec import decode_envelope, decode_envelopes, encode_envelope
from tests.protocol.samples import CODEC, MESSAGES, words

pack = msgspec.msgpack.encode


def attack(name: str, body: bytes) -> None:
    """Decode anything: a message that encodes to the same bytes, or a refusal."""
    try:
        message = CODEC.decode(name, body)
    except RemoteProtocolError:
        return
    assert CODEC.encode(message) == body


def attack_envelope(encoded: bytes) -> None:
    try:
        envelope = decode_envelope(encoded)
    except RemoteProtocolError:
        return
    assert encode_envelope(envelope) == encoded


@st.composite
def mutated(draw: st.DrawFn, valid: bytes) -> bytes:
    """Valid bytes with a few places changed, cut out or put in."""
    body = bytearray(valid)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(body)))
        match draw(st.sampled_from("sidt")):
            case "s" if at < len(body):
                body[at] = draw(st.integers(0, 255))
            case "i":
                body[at:at] = draw(st.binary(min_size=1, max_size=6))
            case "d":
                del body[at : at + draw(st.integers(1, 4))]
            case _:
                del body[at:]
    return bytes(body)


ENVELOPE = Envelope(bytes(32), PartyId("anna"), PartyId("bert"), 300, "Report", b"body")
names = st.sampled_from(list(MESSAGES))
bodies = names.flatmap(
    lambda name: st.tuples(
        st.just(name),
        st.binary(max_size=200) | MESSAGES[name].map(CODEC.encode).flatmap(mutated),
    )
)
encoded_envelopes = st.binary(max_size=80) | mutated(encode_envelope(ENVELOPE))


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(attempt=bodies)
def test_no_bytes_crash_the_codec(attempt: tuple[str, bytes]) -> None:
    attack(*attempt)


@pytest.mark.slow
@settings(deadline=None, max_examples=10_000)
@given(attempt=bodies)
def test_no_bytes_crash_the_codec_at_length(attempt: tuple[str, bytes]) -> None:
    attack(*attempt)


@settings(deadline=None, max_examples=300)
@given(encoded=encoded_envelopes)
def test_no_bytes_crash_the_decoder_of_envelopes(encoded: bytes) -> None:
    attack_envelope(encoded)


@pytest.mark.slow
@settings(deadline=None, max_examples=10_000)
@given(encoded=encoded_envelopes)
def test_no_bytes_crash_the_decoder_of_envelopes_at_length(encoded: bytes) -> None:
    attack_envelope(encoded)


@settings(deadline=None, max_examples=50)
@given(
    envelope=st.builds(
        Envelope,
        st.binary(min_size=16, max_size=16),
        words.map(PartyId),
        words.map(PartyId),
        st.integers(0, 2**64 - 1),
        words,
        st.binary(max_size=300),
    )
)
def test_envelopes_round_trip(envelope: Envelope) -> None:
    encoded = encode_envelope(envelope)
    assert decode_envelope(encoded) == envelope
    assert encode_envelope(decode_envelope(encoded)) == encoded


@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        encode_envelope(ENVELOPE) + b"\x00",
        encode_envelope(ENVELOPE)[:-1],
        encode_envelope(ENVELOPE).replace(b"\xcd\x01\x2c", b"\xce\x00\x00\x01\x2c"),
        encode_envelope(ENVELOPE).replace(b"\xa4anna", b"\xd9\x04anna"),
        encode_envelope(ENVELOPE).replace(b"\xc4\x04body", b"\xa4body"),
        encode_envelope(ENVELOPE).replace(b"anna", b"\xff\xff\xff\xff"),
        pack([*msgspec.to_builtins(ENVELOPE, builtin_types=(bytes,)), 1]),
        b"\x91" * 100_000,
    ],
)
def test_malformed_envelopes(encoded: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="envelope") as caught:
        decode_envelope(encoded)
    good = encode_envelope(ENVELOPE)
    envelopes, malformed = decode_envelopes([good, good, encoded, good])
    assert envelopes == [ENVELOPE, ENVELOPE]
    assert str(malformed) == str(caught.value)


def test_envelopes_of_a_batch_end_where_they_say() -> None:
    good = encode_envelope(ENVELOPE)
    assert decode_envelopes([good, good]) == ([ENVELOPE, ENVELOPE], None)
    envelopes, malformed = decode_envelopes([good, good + good[:5], good[5:]])
    assert envelopes == [ENVELOPE]
    assert malformed is not None
