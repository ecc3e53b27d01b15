"""Extensions: proof that a later checkpoint keeps everything that an earlier one has.

The later checkpoint stands on the earlier one through all that were signed between, and what any
member has said by the earlier one it has said by the later one too, first and unchanged. Times,
deliveries and the order in which members spoke are in ``log`` alone, of which it shows nothing. Its
hashes have no salt: whoever holds it can test guesses of what those who spoke between have said.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Annotated

import msgspec

from protocol.crypto.merkle import EMPTY_ROOT, inner_hash, is_consistent, leaf_hash
from protocol.messages import PartyId
from protocol.transcript.checkpoints import (
    Hash,
    SignedCheckpoint,
    Statement,
    encode_statement,
    statement_hash,
)
from protocol.transcript.entries import party_leaf
from protocol.wire.canonical import canonical

MAGIC = b"sottovoce extension 1\n"
"""The first line of every extension: name and version of the format."""

_Count = Annotated[int, msgspec.Meta(ge=1, le=(1 << 63) - 1)]


class Grown(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """A member that has said more.

    Args:
        member: its id.
        before: how many envelopes it had sent by the earlier checkpoint, and the root of its tree;
            None if it had sent none.
        after: the same by the later checkpoint.
        path: that its tree extends the earlier one (RFC 9162, section 2.1.4).
    """

    member: PartyId
    before: tuple[_Count, Hash] | None
    after: tuple[_Count, Hash]
    path: tuple[Hash, ...]

    @property
    def added(self) -> int:
        """How many envelopes it has sent between."""
        return self.after[0] - self._before[0]

    @property
    def leaves(self) -> tuple[bytes, bytes]:
        """The hashes of its leaf of the main tree, by the earlier and by the later checkpoint."""
        before, after = (
            leaf_hash(party_leaf(self.member, *said)) for said in (self._before, self.after)
        )
        return before, after

    @property
    def holds(self) -> bool:
        """Whether it has said more, and nothing that it had said has changed."""
        (first, first_root), (second, second_root) = self._before, self.after
        return first < second and is_consistent(
            first=first,
            second=second,
            first_root=first_root,
            second_root=second_root,
            path=self.path,
        )

    @property
    def _before(self) -> tuple[int, bytes]:
        return (0, EMPTY_ROOT) if self.before is None else self.before

    def __repr__(self) -> str:
        return f"Grown({self.member!r}, {self.added} more)"


Node = Hash | Grown | None
"""A part of a pruned tree: of a vertex below which nothing has changed its hash; a member's leaf
that has; None joins the two parts before it, left and right."""


class Extension(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True
):
    """What proves that a later checkpoint keeps all that was said by an earlier one.

    Args:
        steps: what the checkpoints after the earlier one say, up to the later one, that included.
        tree: the main tree of the canonical digest, pruned, its parts in postfix order: a vertex
            comes after what is below it. It is one tree for both digests, for only the leaves of
            members that have said more differ.
    """

    steps: tuple[Statement, ...]
    tree: tuple[Node, ...]

    @property
    def grown(self) -> tuple[Grown, ...]:
        """The members that have said more, in roster order."""
        return tuple(node for node in self.tree if isinstance(node, Grown))

    def __repr__(self) -> str:
        return f"Extension({len(self.steps)} steps, {len(self.grown)} members)"


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Extension)


def encode_extension(extension: Extension) -> bytes:
    """An extension as a file holds it."""
    return MAGIC + _encode(extension)


def decode_extension(content: bytes) -> Extension:
    """The inverse of ``encode_extension``.

    Raises:
        ValueError: malformed, or not the one encoding of what it says.
    """
    if not content.startswith(MAGIC):
        raise ValueError("not an extension: its first line is not that of an extension file")
    return canonical(content[len(MAGIC) :], _decoder, what="extension")


def prune(leaves: Iterable[bytes | Grown]) -> tuple[Node, ...]:
    """The main tree in postfix order, a vertex without growth below it as one hash.

    Args:
        leaves: all leaves of the main tree, at least one, in their order: the hash of a leaf that
            has not changed, or the member whose leaf has.
    """
    level: list[tuple[Node, ...]] = [(leaf,) for leaf in leaves]
    while len(level) > 1:
        paired = [_joined(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        # An odd one out has no sibling at this level; it rises as it is.
        level = paired + level[len(level) & ~1 :]
    return level[0]


def _joined(left: tuple[Node, ...], right: tuple[Node, ...]) -> tuple[Node, ...]:
    match left, right:
        case (bytes() as one,), (bytes() as other,):
            return (inner_hash(one, other),)
    return (*left, *right, None)


def problems_of(
    extension: Extension, earlier: SignedCheckpoint, later: SignedCheckpoint
) -> tuple[str, ...]:
    """Why an extension does not hold between two checkpoints, in words; empty if it does."""
    first, last = earlier.statement, later.statement
    chain = (first, *extension.steps)
    grown = extension.grown
    changed = [member.member for member in grown if not member.holds]
    checks = (
        (earlier.valid, "the earlier checkpoint is not signed by the key in it"),
        (later.valid, "the later checkpoint is not signed by the key in it"),
        (earlier.key == later.key, "the checkpoints are signed by different keys"),
        (first.session == last.session, "the checkpoints are of different sessions"),
        (
            first == last or first.number < last.number,
            "the earlier checkpoint does not come before the later one",
        ),
        (chain[-1] == last, "its last checkpoint is not the later one"),
        (
            all(_follows(one, other) for one, other in pairwise(chain)),
            "the checkpoints in it are not a chain from the earlier one",
        ),
        (
            # Every checkpoint is an entry too, and so is every envelope.
            last.entries - first.entries >= len(extension.steps) + sum(g.added for g in grown),
            "fewer entries were added between the checkpoints than envelopes and checkpoints",
        ),
        (
            _digests_of(extension.tree) == (first.digest, last.digest),
            "its tree does not have the digests of the checkpoints",
        ),
        (
            not changed,
            f"the later envelopes of {', '.join(changed[:1])!r:.80} do not extend the earlier ones"
            f"{f'; the same holds for {len(changed)} members in all' if changed[1:] else ''}",
        ),
    )
    return tuple(problem for sound, problem in checks if not sound)


def _follows(one: Statement, other: Statement) -> bool:
    """Whether a checkpoint is the next one of the same record."""
    return (
        not one.final
        and other.session == one.session
        and other.number == one.number + 1
        and other.entries > one.entries
        and other.previous == statement_hash(encode_statement(one))
    )


def _digests_of(tree: Sequence[Node]) -> tuple[bytes, bytes] | None:
    """The earlier and the later digest that a pruned tree leads to; None if it is malformed."""
    waiting: list[tuple[bytes, bytes]] = []
    for node in tree:
        if isinstance(node, Grown):
            waiting.append(node.leaves)
        elif node is not None:
            waiting.append((node, node))
        elif len(waiting) < 2:
            return None
        else:
            right, left = waiting.pop(), waiting.pop()
            before, after = inner_hash(left[0], right[0]), inner_hash(left[1], right[1])
            if before == after:
                # It is not pruned: an extension has one form.
                return None
            waiting.append((before, after))
    return waiting[0] if len(waiting) == 1 else None
