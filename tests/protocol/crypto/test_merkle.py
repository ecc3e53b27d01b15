"""Merkle trees against the known answers of Certificate Transparency and the definition."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.crypto.merkle import (
    EMPTY_ROOT,
    Tree,
    WholeTree,
    consistency_path,
    inclusion_path,
    is_consistent,
    is_included,
    joint_path,
    joint_root,
    leaf_hash,
    merkle_root,
    tree_levels,
)
from tests.vectors.formats import inclusion_path_at, proof_of, tree_hash

# The leaves and roots that Certificate Transparency's implementations test themselves with.
LEAVES = tuple(
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
)
ROOTS = (
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)
leaf_lists = st.lists(st.binary(max_size=8), max_size=40)


@pytest.mark.parametrize("count", range(9))
def test_known_answers(count: int) -> None:
    assert merkle_root(LEAVES[:count]).hex() == ROOTS[count]


@settings(deadline=None, max_examples=60)
@given(leaf_lists, st.lists(st.integers(0, 12), max_size=12))
def test_a_tree_grows_by_one_or_by_many(leaves: list[bytes], cuts: list[int]) -> None:
    tree, rest = Tree(), list(leaves)
    for cut in cuts:
        more, rest = rest[:cut], rest[cut:]
        if cut % 3:
            tree.extend(map(leaf_hash, more))
        else:
            for leaf in more:
                tree.append(leaf)
        assert tree.count == len(leaves) - len(rest)
        assert tree.root() == tree_hash(leaves[: tree.count])


@settings(deadline=None, max_examples=40)
@given(leaf_lists.filter(bool), st.integers(min_value=0))
def test_inclusion_proof_holds(leaves: list[bytes], pick: int) -> None:
    index = pick % len(leaves)
    path = inclusion_path([leaf_hash(leaf) for leaf in leaves], index)
    root = merkle_root(leaves)
    count = len(leaves)
    assert list(path) == inclusion_path_at(index, leaves)
    assert is_included(leaves[index], index=index, count=count, path=path, root=root)


def test_memory_is_logarithmic() -> None:
    tree = Tree()
    for _ in range(1000):
        tree.append(b"leaf")
    assert len(tree._peaks) == (1000).bit_count()


@pytest.mark.slow
@given(st.lists(st.integers(0, 20), max_size=6), st.data())
def test_a_whole_tree_proves_what_it_had_at_any_size(grows: list[int], data: st.DataObject) -> None:
    leaves = [bytes([i]) for i in range(sum(grows))]
    tree, start = WholeTree(), 0
    for count in grows:
        tree.extend(map(leaf_hash, leaves[start : start + count]))
        start += count
        assert tree.root() == tree_hash(leaves[:start])
    assert tree.count == len(leaves)
    hashes = [leaf_hash(leaf) for leaf in leaves]
    assert tree.hashes() == tuple(hashes)
    size = data.draw(st.integers(0, len(leaves)))
    first = data.draw(st.integers(0, size))
    assert tree.hashes(size) == tuple(hashes[:size])
    assert tree.root(size) == tree_hash(leaves[:size])
    assert tree.consistency_path(first, size) == consistency_path(hashes[:size], first)
    for index in range(size):
        assert tree.inclusion_path(index, size) == inclusion_path(hashes[:size], index)


def test_a_whole_tree_proves_nothing_that_it_has_not() -> None:
    tree = WholeTree()
    tree.extend([leaf_hash(b"leaf")] * 3)
    for index, size in ((-1, 3), (3, 3), (2, 2), (0, 0), (0, 4)):
        with pytest.raises(IndexError):
            tree.inclusion_path(index, size)
    for first, size in ((-1, 3), (3, 2), (0, 4)):
        with pytest.raises(IndexError):
            tree.consistency_path(first, size)
    assert repr(tree) == "WholeTree(3 leaves)"


@given(count=st.integers(1, 40), chosen=st.sets(st.integers(0, 39), min_size=1))
def test_several_leaves_are_proven_at_once(count: int, chosen: set[int]) -> None:
    hashes = [leaf_hash(bytes([i])) for i in range(count)]
    levels = tree_levels(hashes)
    root = merkle_root(bytes([i]) for i in range(count))
    assert levels[-1] == (root,)
    indices = {i % count for i in chosen}
    path = joint_path(levels, indices)
    known = {i: hashes[i] for i in indices}
    assert joint_root(known, count=count, path=path) == root
    if len(indices) == 1:
        (index,) = indices
        assert path == inclusion_path(hashes, index)
    for wrong in (path[:-1], (*path, bytes(32)), tuple(reversed(path))):
        if wrong != path:
            assert joint_root(known, count=count, path=wrong) != root
    for i in indices:
        forged = {**known, i: leaf_hash(b"another")}
        assert joint_root(forged, count=count, path=path) != root


def test_a_joint_proof_of_nothing_or_of_a_foreign_place_is_none() -> None:
    assert joint_root({}, count=3, path=()) is None
    assert joint_root({3: bytes(32)}, count=3, path=()) is None
    with pytest.raises(ValueError, match="at least one leaf"):
        tree_levels([])


MANY = tuple(bytes([i]) for i in range(64))
MANY_ROOTS = tuple(merkle_root(MANY[:n]) for n in range(65))


def consistent(first: int, second: int, path: Sequence[bytes], **roots: bytes) -> bool:
    given = {"first_root": MANY_ROOTS[first], "second_root": MANY_ROOTS[second], **roots}
    return is_consistent(first=first, second=second, path=path, **given)


@pytest.mark.slow
def test_consistency_proofs_of_all_sizes_up_to_64() -> None:
    for second in range(65):
        hashes = [leaf_hash(leaf) for leaf in MANY[:second]]
        for first in range(second + 1):
            path = consistency_path(hashes, first)
            if first:
                assert list(path) == proof_of(first, MANY[:second])
            assert len(path) <= 7
            assert consistent(first, second, path)
            assert not consistent(first, second, (*path, bytes(32)))
            assert not consistent(first, second, path, first_root=bytes(32))
            if first:
                # An empty tree is extended by any; what it is extended to, nobody has to prove.
                assert not consistent(first, second, path, second_root=bytes(32))
            if path:
                assert not consistent(first, second, path[:-1])
                assert not consistent(first, second, path[1:])


def test_no_path_proves_that_another_tree_is_extended() -> None:
    """Of two trees that differ in one leaf, neither is extended by what extends the other."""
    for second in range(2, 20):
        hashes = [leaf_hash(leaf) for leaf in MANY[:second]]
        for first in range(1, second):
            path = consistency_path(hashes, first)
            for changed in range(first):
                other = merkle_root([*MANY[:changed], b"another", *MANY[changed + 1 : first]])
                assert not consistent(first, second, path, first_root=other)


def test_consistency_of_impossible_sizes() -> None:
    assert not consistent(5, 4, ())
    assert not is_consistent(first=-1, second=4, first_root=b"", second_root=b"", path=())
    assert consistent(0, 0, ())
    assert MANY_ROOTS[0] == EMPTY_ROOT
    for first in (-1, 4):
        with pytest.raises(IndexError, match="tree with 3"):
            consistency_path([bytes(32)] * 3, first)
