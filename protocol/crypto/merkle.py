"""Merkle tree hashes of RFC 9162 over SHA-256."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence

HASH_BYTES = 32
EMPTY_ROOT = hashlib.sha256(b"").digest()
"""The root of a tree without leaves (RFC 9162, section 2.1.1)."""

_sha256 = hashlib.sha256


def leaf_hash(leaf: bytes) -> bytes:
    """The hash of one leaf, 32 bytes: SHA-256(0x00 || leaf) (RFC 9162, section 2.1.1)."""
    return _sha256(b"\x00" + leaf).digest()


def inner_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an inner vertex, 32 bytes: SHA-256(0x01 || left || right) (section 2.1.1)."""
    return _sha256(b"\x01" + left + right).digest()


class Tree:
    """An append-only tree that keeps the roots of its complete subtrees only: O(log n) memory.

    ``count`` is the number of leaves.
    """

    __slots__ = ("_peaks", "count")

    def __init__(self) -> None:
        # One root for every one-bit of ``count``, the largest subtree first.
        self._peaks: list[bytes] = []
        self.count = 0

    def append(self, leaf: bytes) -> bytes:
        """Add one leaf at the end; returns its hash."""
        top = hashed = _sha256(b"\x00" + leaf).digest()
        count = self.count
        peaks = self._peaks
        while count & 1:
            top = _sha256(b"\x01" + peaks.pop() + top).digest()
            count >>= 1
        peaks.append(top)
        self.count += 1
        return hashed

    def extend(self, hashes: Iterable[bytes]) -> None:
        """Add leaves at the end, given by their leaf hashes: faster than one by one."""
        level, count, peaks = list(hashes), self.count, self._peaks
        self.count += len(level)
        added: list[bytes] = []
        while level:
            if count & 1:
                level.insert(0, peaks.pop())
            if len(level) & 1:
                added.append(level.pop())
            level = _above(level)
            count >>= 1
        peaks += reversed(added)

    def root(self) -> bytes:
        """The Merkle tree hash of all leaves so far, 32 bytes."""
        if not self._peaks:
            return EMPTY_ROOT
        root = self._peaks[-1]
        for peak in self._peaks[-2::-1]:
            root = inner_hash(peak, root)
        return root

    def __repr__(self) -> str:
        return f"Tree({self.count} leaves)"


class WholeTree:
    """An append-only tree that keeps all vertices: 64 bytes for each leaf.

    It proves any of its leaves, in the tree as it is or as it was when it had fewer.
    """

    __slots__ = ("_levels",)

    def __init__(self) -> None:
        # Of each level, from the leaves upward, the roots of its complete subtrees.
        self._levels: list[bytearray] = [bytearray()]

    @property
    def count(self) -> int:
        """The number of leaves."""
        return len(self._levels[0]) // HASH_BYTES

    def extend(self, hashes: Iterable[bytes]) -> None:
        """Add leaves at the end, given by their leaf hashes."""
        added = b"".join(hashes)
        depth = 0
        while added:
            below = self._levels[depth]
            before = len(below) // (2 * HASH_BYTES)
            below += added
            depth += 1
            if depth == len(self._levels):
                self._levels.append(bytearray())
            places = range(before, len(below) // (2 * HASH_BYTES))
            added = b"".join(
                _sha256(b"\x01" + below[2 * HASH_BYTES * i : 2 * HASH_BYTES * (i + 1)]).digest()
                for i in places
            )

    def hashes(self, count: int | None = None) -> tuple[bytes, ...]:
        """The leaf hashes of the first ``count`` leaves; by default of all."""
        leaves = bytes(self._levels[0])
        stop = len(leaves) if count is None else count * HASH_BYTES
        return tuple(leaves[i : i + HASH_BYTES] for i in range(0, stop, HASH_BYTES))

    def root(self, count: int | None = None) -> bytes:
        """The Merkle tree hash of the first ``count`` leaves, 32 bytes; by default of all."""
        return self._over(0, self._known(count))

    def inclusion_path(self, index: int, count: int | None = None) -> tuple[bytes, ...]:
        """Inclusion proof of a leaf, as the function of this name gives it.

        Args:
            index: which leaf, from 0.
            count: the number of leaves of the tree to prove it in; by default all.

        Raises:
            IndexError: that tree has no leaf of this index, or there are fewer leaves.
        """
        count = self._known(count)
        if not 0 <= index < count:
            raise IndexError(f"leaf {index} of a tree with {count} leaves")
        siblings = ((depth, index >> depth ^ 1) for depth in range((count - 1).bit_length()))
        return tuple(
            self._vertex(depth, place, count) for depth, place in siblings if place << depth < count
        )

    def consistency_path(self, first: int, count: int | None = None) -> tuple[bytes, ...]:
        """Proof that a tree extends its own first leaves, as the function of this name gives it.

        Args:
            first: the number of leaves of the earlier tree.
            count: the number of leaves of the later tree; by default all.

        Raises:
            IndexError: more leaves than there are, or a negative number.
        """
        count = self._known(count)
        if not 0 <= first <= count:
            raise IndexError(f"the first {first} leaves of a tree with {count}")
        return _consistency(self._over, first, count)

    def _known(self, count: int | None) -> int:
        if count is None:
            return self.count
        if not 0 <= count <= self.count:
            raise IndexError(f"the first {count} leaves of a tree with {self.count}")
        return count

    def _over(self, start: int, end: int) -> bytes:
        """The root over some leaves; ``start`` begins a subtree with room for them."""
        if end == start:
            return EMPTY_ROOT
        depth = (end - start - 1).bit_length()
        return self._vertex(depth, start >> depth, end)

    def _vertex(self, depth: int, place: int, count: int) -> bytes:
        """A vertex of the tree of the first ``count`` leaves."""
        if place < count >> depth:
            start = HASH_BYTES * place
            return bytes(self._levels[depth][start : start + HASH_BYTES])
        left = self._vertex(depth - 1, 2 * place, count)
        if 2 * place + 1 << depth - 1 >= count:
            return left
        return inner_hash(left, self._vertex(depth - 1, 2 * place + 1, count))

    def __repr__(self) -> str:
        return f"WholeTree({self.count} leaves)"


def _above(level: Sequence[bytes]) -> list[bytes]:
    """The parents of an even number of neighbours."""
    pairs = zip(level[::2], level[1::2], strict=True)
    return [_sha256(b"\x01" + left + right).digest() for left, right in pairs]


def merkle_root(leaves: Iterable[bytes]) -> bytes:
    """The Merkle tree hash of these leaves, 32 bytes (RFC 9162, section 2.1.1)."""
    return root_of_hashes(map(leaf_hash, leaves))


def root_of_hashes(hashes: Iterable[bytes]) -> bytes:
    """The Merkle tree hash of the leaves that have these leaf hashes, 32 bytes."""
    tree = Tree()
    tree.extend(hashes)
    return tree.root()


def inclusion_path(hashes: Sequence[bytes], index: int) -> tuple[bytes, ...]:
    """Proof that a leaf is in the tree (RFC 9162, section 2.1.3.1), from the leaf upward.

    Args:
        hashes: the leaf hashes of the whole tree, in order.
        index: which leaf, from 0.

    Raises:
        IndexError: the tree has no leaf of this index.
    """
    if not 0 <= index < len(hashes):
        raise IndexError(f"leaf {index} of a tree with {len(hashes)} leaves")
    return joint_path(tree_levels(hashes), [index])


def is_included(leaf: bytes, *, index: int, count: int, path: Sequence[bytes], root: bytes) -> bool:
    """Check whether ``path`` proves that a tree has this leaf (RFC 9162, section 2.1.3.2).

    Args:
        leaf: the leaf itself, not its hash.
        index: its place in the tree, from 0.
        count: how many leaves the tree has.
        path: the path, as of ``inclusion_path``.
        root: the tree's root.
    """
    return joint_root({index: leaf_hash(leaf)}, count=count, path=path) == root


def consistency_path(hashes: Sequence[bytes], first: int) -> tuple[bytes, ...]:
    """Proof that a tree extends its own first leaves (RFC 9162, section 2.1.4.1).

    Args:
        hashes: the leaf hashes of the whole tree, in order.
        first: how many leaves the earlier tree had.

    Raises:
        IndexError: more leaves than there are, or a negative number.
    """
    if not 0 <= first <= len(hashes):
        raise IndexError(f"the first {first} leaves of a tree with {len(hashes)}")
    return _consistency(lambda start, end: root_of_hashes(hashes[start:end]), first, len(hashes))


def _consistency(over: Callable[[int, int], bytes], first: int, count: int) -> tuple[bytes, ...]:
    """A consistency path, from a function for the root over a range of leaves."""
    path: list[bytes] = []
    start, end, whole = 0, count, True
    while 0 < first < end - start:
        # The largest power of two below the number of leaves.
        split = 1 << (end - start - 1).bit_length() - 1
        if first <= split:
            path.append(over(start + split, end))
            end = start + split
        else:
            path.append(over(start, start + split))
            start, first, whole = start + split, first - split, False
    if first and not whole:
        path.append(over(start, end))
    return tuple(reversed(path))


def is_consistent(
    *, first: int, second: int, first_root: bytes, second_root: bytes, path: Sequence[bytes]
) -> bool:
    """Check whether ``path`` proves that a tree extends an earlier one (RFC 9162, section 2.1.4.2).

    Args:
        first, second: the numbers of leaves of the earlier and the later tree.
        first_root, second_root: their roots.
        path: the path, as of ``consistency_path``.
    """
    if not 0 <= first <= second:
        return False
    if first == 0 and first_root != EMPTY_ROOT:
        return False
    if first in (0, second):
        # Nothing is extended by anything, and a tree by itself alone.
        return not path and (first < second or first_root == second_root)
    # Where the earlier tree is a complete subtree of the later one, its root goes without saying.
    given = [first_root, *path] if first & (first - 1) == 0 else list(path)
    if not given:
        return False
    place, last = first - 1, second - 1
    while place & 1:
        place >>= 1
        last >>= 1
    earlier = later = given[0]
    for sibling in given[1:]:
        if last == 0:
            return False
        if place & 1 or place == last:
            earlier, later = inner_hash(sibling, earlier), inner_hash(sibling, later)
            while not place & 1 and place:
                place >>= 1
                last >>= 1
        else:
            later = inner_hash(later, sibling)
        place >>= 1
        last >>= 1
    return last == 0 and earlier == first_root and later == second_root


def tree_levels(hashes: Sequence[bytes]) -> tuple[tuple[bytes, ...], ...]:
    """All levels of a tree, from its leaf hashes up to the root alone.

    Raises:
        ValueError: no leaf.
    """
    if not hashes:
        raise ValueError("expected at least one leaf")
    levels = [tuple(hashes)]
    while len(level := levels[-1]) > 1:
        even = len(level) & ~1
        levels.append((*_above(level[:even]), *level[even:]))
    return tuple(levels)


def joint_path(levels: Sequence[Sequence[bytes]], indices: Iterable[int]) -> tuple[bytes, ...]:
    """Joint proof of several leaves: every vertex that cannot be computed from them.

    They come level by level from the leaves upward, each level from left to right.

    Args:
        levels: of the whole tree, as ``tree_levels`` gives them.
        indices: the leaves, in any order.
    """
    known = sorted(set(indices))
    path = []
    for level in levels[:-1]:
        there = set(known)
        path += [level[i ^ 1] for i in known if i ^ 1 not in there and i ^ 1 < len(level)]
        known = sorted({i >> 1 for i in known})
    return tuple(path)


def joint_root(hashes: Mapping[int, bytes], *, count: int, path: Sequence[bytes]) -> bytes | None:
    """The root that some leaves and their ``joint_path`` lead to; None if they do not fit.

    Args:
        hashes: the leaf hash of each of these leaves, by its place.
        count: how many leaves the tree has.
        path: the path, as of ``joint_path``.
    """
    if not hashes or not all(0 <= i < count for i in hashes):
        return None
    rest = iter(path)
    # By place, from left to right.
    level, length = dict(sorted(hashes.items())), count
    try:
        while length > 1:
            above: dict[int, bytes] = {}
            for i, known in level.items():
                if i & 1:
                    if i - 1 not in level:
                        above[i >> 1] = inner_hash(next(rest), known)
                elif i + 1 < length:
                    above[i >> 1] = inner_hash(known, level.get(i + 1) or next(rest))
                else:
                    above[i >> 1] = known
            level, length = above, (length + 1) >> 1
    except StopIteration:
        return None
    return level[0] if next(rest, None) is None else None
