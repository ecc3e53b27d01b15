"""The log: leaves by the description, roots as they grow, salts that are all different."""

from __future__ import annotations

import itertools

import pytest

from protocol.transcript.log import Log, seed_log_secret
from tests.vectors.formats import inclusion_path_at, log_leaves, tree_hash

SECRET = bytes(range(32))


def test_a_log_has_the_root_that_the_format_says_at_every_size() -> None:
    contents = [b"\x90" * (i * 97 % 2000) for i in range(130)]
    log = Log(SECRET)
    for size, content in enumerate(contents):
        assert log.size == size
        if size % 7 == 0 or size > 120:
            assert log.root() == tree_hash(log_leaves(SECRET, contents[:size]))
        log.add(content)


def test_batches_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    contents = [b"\x90%d" % i for i in range(50)]
    roots = set()
    for batch in (1, 2, 7, 64):
        monkeypatch.setattr("protocol.transcript.log._BATCH", batch)
        log = Log(SECRET, proving=True)
        for content in contents:
            log.add(content)
        roots.add(log.root())
        assert log.tree.count == 50
    assert roots == {tree_hash(log_leaves(SECRET, contents))}


def test_a_leaf_is_shown_in_the_log_of_any_size() -> None:
    contents = [b"\x90%d" % i for i in range(20)]
    log = Log(SECRET, proving=True)
    for content in contents:
        log.add(content)
    leaves = log_leaves(SECRET, contents)
    for size in (9, 16, 20):
        for index in (0, 5, 8):
            assert log.shown(index, size) == (
                leaves[index][:16],
                tuple(inclusion_path_at(index, leaves[:size])),
            )
    assert log.shown(19) == (leaves[19][:16], tuple(inclusion_path_at(19, leaves)))
    with pytest.raises(TypeError, match="keeps no tree"):
        Log(SECRET).shown(0)


def test_secrets_of_simulations_differ() -> None:
    found = [seed_log_secret(seed) for seed in range(20)]
    assert all(a != b for a, b in itertools.combinations(found, 2))
    assert repr(Log(SECRET)) == "Log(0 leaves)"
