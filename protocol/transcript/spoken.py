"""Messages of members, which of them were delivered, and whether a party's head fits that."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from protocol.crypto.merkle import Tree
from protocol.messages import Envelope
from protocol.session.heads import decode_head, head_statement, heard_leaf
from protocol.session.roster import Signed, are_signatures
from protocol.transcript.entries import Header

NOBODY = 2**32 - 1
"""The recipient's number in an envelope that is not sent to a member."""

UNSIGNED = "its sender has not signed this head over what it has said and heard on record"
"""The problem of a head whose signature does not hold."""

_WORD = struct.Struct("<32sIIB")
_FATE = _WORD.size - 1
_DELIVERED, _HANDED = 1, 2
"""Bits of the last byte: it was delivered; it, or an earlier one of its number, was handed on."""
_NONE: tuple[bytes, frozenset[int]] = (b"", frozenset())


class Word(NamedTuple):
    """Data on an envelope that heads are checked against.

    Args:
        hashed: its leaf hash.
        recipient: the recipient's place on the roster, or ``NOBODY``.
        kind: the place of its kind in the header, or ``NOBODY``.
        delivered: whether it was handed to its recipient.
    """

    hashed: bytes
    recipient: int
    kind: int
    delivered: int


class Words:
    """The envelopes of one sender, 41 bytes of memory for each."""

    __slots__ = ("_dense", "_odd", "_words")

    def __init__(self) -> None:
        self._words = bytearray()
        # The number of envelopes numbered 0, 1, 2, ...; the places of the others.
        self._dense = 0
        self._odd: dict[int, int] = {}

    def put(self, seq: int, hashed: bytes, recipient: int, kind: int) -> None:
        """Note an envelope; of two with one number, the later one is found."""
        place, fate = len(self._words) // _WORD.size, 0
        if seq == place == self._dense:
            self._dense += 1
        else:
            before = self._start(seq)
            fate = 0 if before is None else self._words[before + _FATE] & _HANDED
            self._odd[seq] = place
        self._words += _WORD.pack(hashed, recipient, kind, fate)

    def get(self, seq: int) -> Word | None:
        """The envelope of a number; None if there is none."""
        start = self._start(seq)
        return None if start is None else self._word(start)

    def deliver(self, seq: int) -> None:
        """Note that an envelope was delivered."""
        start = self._start(seq)
        if start is not None:
            self._words[start + _FATE] |= _DELIVERED

    def hand(self, seq: int) -> Word | None:
        """Note that an envelope was handed to a member, rightly or not; as ``get``."""
        start = self._start(seq)
        if start is None:
            return None
        self._words[start + _FATE] |= _HANDED
        return self._word(start)

    def handed(self) -> tuple[bytes, frozenset[int]]:
        """Envelopes that were handed on: a byte each for the first numbers, and other numbers."""
        fates = self._words[_FATE :: _WORD.size]
        odd = (seq for seq, place in self._odd.items() if fates[place] & _HANDED)
        return bytes(fates[: self._dense]), frozenset(odd)

    def _word(self, start: int) -> Word:
        hashed, recipient, kind, fate = _WORD.unpack_from(self._words, start)
        return Word(hashed, recipient, kind, fate & _DELIVERED == _DELIVERED)

    def _start(self, seq: int) -> int | None:
        place = self._odd.get(seq, seq)
        known = seq in self._odd or 0 <= seq < self._dense
        return place * _WORD.size if known else None


@dataclass(frozen=True, slots=True)
class Handed:
    """Envelopes that were handed to anybody, by name of the sender and number.

    Repeated numbers are all in it, or none.

    Args:
        by_sender: as of ``Words.handed``.
    """

    by_sender: Mapping[str, tuple[bytes, frozenset[int]]] = field(repr=False)

    def __contains__(self, envelope: tuple[str, int]) -> bool:
        sender, seq = envelope
        dense, odd = self.by_sender.get(sender, _NONE)
        return seq in odd or (0 <= seq < len(dense) and bool(dense[seq] & _HANDED))


class Spoken:
    """Judges heads by the envelopes sent and delivered before them.

    Args:
        header: the header of the record.
        trees: each member's tree of its encoded envelopes.
        words: the envelopes of every sender, by name.

    Attributes:
        places: each member's place on the roster.
        kinds: the place of each kind in the header.
    """

    def __init__(
        self, header: Header, trees: Mapping[str, Tree], words: Mapping[str, Words]
    ) -> None:
        self._session = header.session
        self._roster = header.roster
        self._trees = trees
        self._words = words
        self.places = {str(name): place for place, (name, _) in enumerate(header.roster)}
        self.kinds = {kind: place for place, kind in enumerate(header.longest)}

    def head_fault(self, envelope: Envelope) -> str | None:
        """Fault of a member's envelope of the kind of heads; None if there is none."""
        claim = self.head_claim(envelope)
        if isinstance(claim, str):
            return claim
        return None if all(are_signatures([claim])) else UNSIGNED

    def head_claim(self, envelope: Envelope) -> Signed | str:
        """Claim of a member's head, or its problem apart from the signature.

        Args:
            envelope: the member's next envelope, of the kind of heads.
        """
        head, sender, count = decode_head(envelope), envelope.sender, envelope.seq
        if head is None:
            return "malformed head: expected one sent by a party to the record"
        place, heard_tree = self.places[sender], Tree()
        before, known = 0, set[tuple[int, int]]()
        for wait in head.waits:
            if not before <= wait.said <= count:
                return f"a wait after {wait.said} envelopes: expected {before} to {count}"
            before, last, kind = wait.said, -1, self.kinds.get(wait.kind)
            heard: list[tuple[int, int, bytes]] = []
            for pair in wait.heard:
                other, seq = pair
                word = self._word(other, seq)
                if word is None or word[1:] != (place, kind, True):
                    return f"seq {seq} of member {other}: no such {wait.kind!r:.80} was delivered"
                if other <= last or pair in known:
                    return f"seq {seq} of member {other} is out of order or heard twice"
                known.add(pair)
                last = other
                heard.append((other, seq, word.hashed))
            heard_tree.append(heard_leaf(wait.said, wait.kind, wait.round, heard))
        statement = head_statement(
            session=self._session,
            sender=sender,
            count=count,
            said=self._trees[sender].root(),
            heard=heard_tree.root(),
        )
        _, key = self._roster[place]
        return Signed(head.signature, statement, key)

    def _word(self, place: int, seq: int) -> Word | None:
        if place >= len(self._roster):
            return None
        words = self._words.get(self._roster[place][0])
        return None if words is None else words.get(seq)
