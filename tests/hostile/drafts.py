"""A transcript as plain values that can be changed, and written anew by who holds every key."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import msgspec
import zstandard

from protocol import AGGREGATOR, RECORD, PartyId, TranscriptError
from protocol.crypto.merkle import Tree, leaf_hash, merkle_root
from protocol.messages import Closed, Head
from protocol.session.heads import head_statement, heard_leaf
from protocol.session.roster import Identity
from protocol.transcript.checkpoints import sign_checkpoint
from protocol.transcript.entries import decode_header, expected_session
from protocol.transcript.log import Log
from protocol.transcript.reader import Records
from tests.recorded.forgeries import packed, plain
from tests.recorded.runs import Run

Value = Any
"""What msgpack holds; a ``msgspec.Raw`` in it is written as it is."""

SENT, CHECKPOINT, ENDING = "Sent", "Checkpoint", "Ending"
_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_decode = msgspec.msgpack.decode
_FAILS = (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError, KeyError)


def pack(value: Value) -> bytes:
    """A value as bytes; nothing where msgpack cannot carry it."""
    try:
        return _encode(value)
    except _FAILS:
        return b"\xc0"


class Draft(NamedTuple):
    """What is in a transcript.

    Args:
        secret: of its log.
        header: its map.
        items: what follows, a list each; the envelope of a ``Sent`` is a list of six.
        identities: the keys of its members, by name.
    """

    secret: bytes
    header: dict[str, Any]
    items: list[Value]
    identities: dict[str, Identity]

    def copied(self) -> Draft:
        """One that can be changed without changing this one."""
        return self._replace(
            header=copy.deepcopy(self.header), items=[_copied(item) for item in self.items]
        )

    def envelopes(self) -> list[list[Value]]:
        """All envelopes that can be changed field by field."""
        return [item[2] for item in self.items if _is_sent(item)]


def draft_of(run: Run) -> Draft:
    """A run's transcript."""
    records = Records(run.content)
    header, *items = list(records)
    found = [_decode(item) for item in items]
    for item in found:
        if item[0] == SENT:
            item[2] = _decode(item[2])
    identities = {str(name): key for name, key in run.setting.identities.items()}
    return Draft(records.secret, _decode(header), found, identities)


def header_bytes(header: dict[str, Any]) -> bytes:
    """A header's map: its own names as they come, those inside it sorted."""
    parts = (pack(part) for item in header.items() for part in item)
    return (
        b"\xde" + len(header).to_bytes(2) + b"".join(parts)
        if len(header) > 15
        else bytes([0x80 | len(header)]) + b"".join(parts)
    )


def sealed(draft: Draft, *, heads: bool = True, signed: bool = True) -> list[bytes]:
    """The records of a draft, with session, heads, checkpoints and last entry made to fit.

    Args:
        heads: whether the parties sign what they say and hear now.
        signed: whether the aggregator signs checkpoints of what is there now; else they go.
    """
    header = header_bytes(draft.header)
    old, session = draft.header.get("session"), b""
    try:
        decoded = decode_header(header)
        session = expected_session(decoded)
        header = header_bytes({**draft.header, "session": session})
    except (TranscriptError, *_FAILS):
        decoded = None
    log = Log(draft.secret)
    log.add(header)
    records, said = [header], _Said(draft, session if decoded else b"")
    for item in draft.items:
        if _is_sent(item):
            envelope = list(item[2])
            if decoded is not None and envelope[0] == old:
                envelope[0] = session
            content = pack([*item[:2], said.take(envelope, heads), *item[3:]])
        elif isinstance(item, list) and item[:1] == [CHECKPOINT]:
            if decoded is not None and signed:
                note = sign_checkpoint(
                    draft.identities[AGGREGATOR], session=session, size=log.size, root=log.root()
                ).note
                records.append(pack([CHECKPOINT, note]))
            continue
        elif isinstance(item, list) and item[:1] == [ENDING] and len(item) == 4:
            content = pack([ENDING, log.root(), *item[2:]])
        else:
            content = pack(item)
        log.add(content)
        records.append(content)
    return records


def unsealed(draft: Draft) -> list[bytes]:
    """The records of a draft as they are, with the log and signatures of what was there before."""
    return [
        header_bytes(draft.header),
        *(pack([*i[:2], pack(i[2]), *i[3:]]) if _is_sent(i) else pack(i) for i in draft.items),
    ]


def file_of(records: list[bytes], secret: bytes, *, wrap: bool) -> bytes:
    """The file of these records."""
    content = plain(records, secret)
    return packed([content], _FRAME) if wrap else content


_FRAME = zstandard.ZstdCompressor(level=1, write_checksum=True).compress


class _Said:
    """What members say in a draft, and so what heads and the digest are over."""

    def __init__(self, draft: Draft, session: bytes) -> None:
        self._draft = draft
        self._session = session
        roster = draft.header.get("roster")
        members = roster if isinstance(roster, list) else []
        names = [m[0] for m in members if isinstance(m, list) and m and isinstance(m[0], str)]
        self._names: list[str] = names
        self._trees = {name: Tree() for name in names}
        self._leaves: dict[tuple[str, Any], bytes] = {}
        self.result: bytes | None = None

    def take(self, envelope: list[Value], heads: bool) -> bytes:
        sender, seq, kind = envelope[1], envelope[3], envelope[4]
        tree = self._trees.get(sender) if isinstance(sender, str) else None
        kind = kind if isinstance(kind, str) else ""
        if heads and tree is not None and kind == Head.kind() and sender in self._draft.identities:
            envelope[5] = self._head(sender, tree, envelope[5])
        encoded = pack(envelope)
        if tree is not None:
            hashed = tree.append(encoded)
            if isinstance(seq, int):
                self._leaves[sender, seq] = hashed
            if sender == AGGREGATOR:
                published = envelope[2] == RECORD and kind != Closed.kind()
                self.result = leaf_hash(encoded) if published else None
        return encoded

    def _head(self, sender: str, tree: Tree, body: Value) -> Value:
        try:
            waits, _ = _decode(body)
            heard = [
                heard_leaf(
                    said,
                    kind,
                    round_,
                    [(p, seq, self._leaves[self._names[p], seq]) for p, seq in slots],
                )
                for said, kind, round_, slots in waits
            ]
            statement = head_statement(
                session=self._session,
                sender=PartyId(sender),
                count=tree.count,
                said=tree.root(),
                heard=merkle_root(heard),
            )
            return pack([waits, self._draft.identities[sender].sign(statement)])
        except (*_FAILS, IndexError):
            return body

    def digest(self) -> bytes:
        header = self._draft.header
        leaves = [pack([2, self._session or header.get("session"), header.get("seed")])]
        for name in self._names:
            tree = self._trees[name]
            leaves.append(pack([name, tree.count, tree.root()]))
        return merkle_root(leaves)


def _is_sent(item: Value) -> bool:
    return (
        isinstance(item, list)
        and len(item) >= 3
        and item[0] == SENT
        and isinstance(item[2], list)
        and len(item[2]) == 6
    )


def _copied(item: Value) -> Value:
    if not isinstance(item, list):
        return item
    return [list(part) if isinstance(part, list) else part for part in item]
