"""Extensions: one form, small, and none with anything changed."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from protocol.crypto.merkle import EMPTY_ROOT, Tree, consistency_path, inner_hash, leaf_hash
from protocol.messages import AGGREGATOR, PartyId
from protocol.transcript.checkpoints import Statement
from protocol.transcript.extension import (
    Extension,
    Grown,
    decode_extension,
    encode_extension,
    problems_of,
    prune,
)
from protocol.transcript.reader import TranscriptReader
from tests.recorded.checkpointed import (
    OTHER,
    SIGNER,
    checkpoints_of,
    grown_of,
    middle,
    next_after,
    prove,
    record,
    replaced,
    signed,
    words_at,
)
from tests.recorded.signed import signed_run
from tests.vectors.make import tree_hash

pack = msgspec.msgpack.encode


def test_an_extension_is_what_the_format_says() -> None:
    """By hand: of eight members the aggregator alone has spoken after the first checkpoint."""
    run = signed_run()
    earlier, later = checkpoints_of(run.content)
    before, after = words_at(run.content, earlier), words_at(run.content, later)
    extension = prove(run.content, earlier, later)
    header = TranscriptReader(run.content).header
    names = ("format", "variant", "parameters", "survey", "session", "roster", "kinds", "seed")
    first = msgspec.msgpack.encode([getattr(header, n) for n in names], order="deterministic")
    parties = [name for name in before if name != AGGREGATOR]
    assert all(before[name] == after[name] for name in parties)
    leaves = [pack([name, len(before[name]), tree_hash(before[name])]) for name in parties]
    said, more = before[AGGREGATOR], after[AGGREGATOR]
    grown = Grown(
        member=AGGREGATOR,
        before=(len(said), tree_hash(said)),
        after=(len(more), tree_hash(more)),
        path=consistency_path([leaf_hash(word) for word in more], len(said)),
    )
    # Nine leaves: the header's, the aggregator's, then 2, 4 and 1 of parties.
    assert extension == Extension(
        steps=(later.statement,),
        tree=(
            leaf_hash(first),
            grown,
            None,
            tree_hash(leaves[:2]),
            None,
            tree_hash(leaves[2:6]),
            None,
            leaf_hash(leaves[6]),
            None,
        ),
    )
    magic, encoded = b"sottovoce extension 1\n", encode_extension(extension)
    assert encoded.startswith(magic)
    assert msgspec.msgpack.decode(encoded[len(magic) :]) == [
        [[*msgspec.structs.astuple(later.statement)]],
        [[*msgspec.structs.astuple(n)] if isinstance(n, Grown) else n for n in plain(extension)],
    ]


def plain(extension: Extension) -> list[Any]:
    """The tree, its tuples as lists."""
    made = []
    for node in extension.tree:
        if isinstance(node, Grown):
            changes: dict[str, Any] = {
                "before": None if node.before is None else [*node.before],
                "after": [*node.after],
                "path": [*node.path],
            }
            node = msgspec.structs.replace(node, **changes)
        made.append(node)
    return made


def test_a_tree_has_one_form() -> None:
    """What has not changed is folded, and a member that has said nothing more is not listed."""
    before = {"anna": [b"a"], "bert": [b"b"], "carl": [b"c"]}
    header, anna, bert, carl = (
        tree_hash([b"header"]),
        *(
            Grown(
                member=PartyId(name),
                before=(1, tree_hash(words)),
                after=(1, tree_hash(words)) if name != "anna" else (2, tree_hash([b"a", b"x"])),
                path=(leaf_hash(b"x"),) if name == "anna" else (),
            )
            for name, words in before.items()
        ),
    )
    tree, digest, more = grown_of(before, {**before, "anna": [b"a", b"x"]})
    earlier = next_after(checkpoints_of(record())[0], digest)
    later = next_after(earlier, more)

    def problems(*tree: Any) -> tuple[str, ...]:
        return problems_of(Extension(steps=(later.statement,), tree=tree), earlier, later)

    (leaf, _), (other, _) = bert.leaves, carl.leaves
    assert tree == (header, anna, None, inner_hash(leaf, other), None)
    assert problems(*tree) == ()
    unfolded = "its tree does not have the digests of the checkpoints"
    assert problems(header, anna, None, leaf, other, None, None) == (unfolded,)
    assert unfolded in problems(header, anna, None, bert, other, None, None)
    # Of three leaves the last one stands alone, so that only its member tells.
    del before["carl"]
    tree, digest, more = grown_of(before, {**before, "anna": [b"a", b"x"]})
    earlier = next_after(checkpoints_of(record())[0], digest)
    later = next_after(earlier, more)
    assert problems(header, anna, None, leaf, None) == ()
    silent = "the later envelopes of 'bert' do not extend the earlier ones"
    assert problems(header, anna, None, bert, None) == (silent,)


def variations(extension: Extension) -> dict[str, Extension]:
    """The extension with one thing changed in each."""
    tree, steps = extension.tree, extension.steps
    places = {node.member: i for i, node in enumerate(tree) if isinstance(node, Grown)}

    def at(place: int, *nodes: Any) -> Extension:
        return replaced(extension, tree=(*tree[:place], *nodes, *tree[place + 1 :]))

    def said(name: str, **changes: Any) -> Extension:
        node = tree[places[PartyId(name)]]
        assert isinstance(node, Grown)
        return at(places[node.member], msgspec.structs.replace(node, **changes))

    def step(place: int, **changes: Any) -> Extension:
        changed = msgspec.structs.replace(steps[place], **changes)
        return replaced(extension, steps=(*steps[:place], changed, *steps[place + 1 :]))

    old, new = tree[places[PartyId("party-1")]], tree[places[PartyId("party-3")]]
    assert isinstance(old, Grown)
    assert old.before is not None
    assert old.path
    assert isinstance(new, Grown)
    assert new.before is None
    (count, root), (more, later) = old.before, old.after
    folded = next(i for i, node in enumerate(tree) if isinstance(node, bytes))
    return {
        "no tree": replaced(extension, tree=()),
        "a join too many": replaced(extension, tree=(*tree, None)),
        "a join too few": replaced(extension, tree=tree[:-1]),
        "a join alone": replaced(extension, tree=(None,)),
        "a vertex too many": replaced(extension, tree=(*tree, bytes(32))),
        "a vertex changed": at(folded, bytes(32)),
        "a vertex left out": at(folded),
        "a member left out": at(places[old.member]),
        "a member folded, as before": at(places[old.member], old.leaves[0]),
        "a member folded, as after": at(places[old.member], old.leaves[1]),
        "a member twice": at(places[old.member], old, old, None),
        "members swapped": at(places[old.member], new),
        "the order": replaced(extension, tree=tree[::-1]),
        "member": said("party-1", member=PartyId("party-2")),
        "before, count": said("party-1", before=(count + 1, root)),
        "before, less": said("party-1", before=(count - 1, root)),
        "before, root": said("party-1", before=(count, bytes(32))),
        "before, nothing": said("party-1", before=None),
        "before, as after": said("party-1", before=old.after, path=()),
        "before, of one who had not spoken": said("party-3", before=(1, bytes(32))),
        "before, the empty root": said("party-3", before=(1, EMPTY_ROOT)),
        "after, count": said("party-1", after=(more + 1, later)),
        "after, root": said("party-1", after=(more, bytes(32))),
        "after, as before": said("party-1", after=old.before, path=()),
        "after and before swapped": said("party-1", before=old.after, after=old.before),
        "path": said("party-1", path=(bytes(32), *old.path[1:])),
        "path, longer": said("party-1", path=(*old.path, bytes(32))),
        "path, shorter": said("party-1", path=old.path[:-1]),
        "path, none": said("party-1", path=()),
        "path, of one who had not spoken": said("party-3", path=(bytes(32),)),
        "no steps": replaced(extension, steps=()),
        "the last step alone": replaced(extension, steps=steps[-1:]),
        "no last step": replaced(extension, steps=steps[:-1]),
        "a step twice": replaced(extension, steps=(*steps[:-1], *steps[-2:])),
        "steps swapped": replaced(extension, steps=steps[::-1]),
        **{
            f"step {place}, {name}": step(place, **{name: value})
            for place in range(len(steps))
            for name, value in {
                "session": bytes(16),
                "number": 7,
                "entries": 99,
                "log": bytes(32),
                "digest": bytes(32),
                "previous": bytes(32),
                "standing": bytes(32),
                "result": bytes(32),
            }.items()
        },
    }


@pytest.mark.parametrize("what", variations(middle()[0]))
def test_with_anything_changed_it_does_not_hold(what: str) -> None:
    extension, earlier, later = middle()
    forged = variations(extension)[what]
    assert forged != extension
    assert problems_of(forged, earlier, later)


def test_with_any_bit_changed_it_does_not_hold() -> None:
    extension, earlier, later = middle()
    content = encode_extension(extension)
    refused = 0
    for place, bit in itertools.product(range(len(content)), (1, 0x80)):
        forged = bytearray(content)
        forged[place] ^= bit
        try:
            decoded = decode_extension(bytes(forged))
        except ValueError:
            refused += 1
            continue
        assert problems_of(decoded, earlier, later), (place, bit)
    assert 0 < refused < 2 * len(content)


@pytest.mark.parametrize("name", Statement.__struct_fields__)
@pytest.mark.parametrize("which", [0, 1], ids=["earlier", "later"])
def test_with_another_checkpoint_it_does_not_hold(which: int, name: str) -> None:
    """One that the aggregator did not sign, and one that it did."""
    extension, *pair = middle()
    values: dict[str, Any] = {"session": bytes(16), "number": 3 - 3 * which, "entries": 61}
    statement = msgspec.structs.replace(
        pair[which].statement, **{name: values.get(name, bytes(32))}
    )
    assert statement != pair[which].statement
    unsigned = msgspec.structs.replace(pair[which], statement=statement)
    side = ("earlier", "later")[which]
    for changed in (unsigned, signed(statement)):
        pair[which] = changed
        problems = problems_of(extension, *pair)
        assert problems
        bad = f"the {side} checkpoint is not signed by the key in it"
        assert (bad in problems) == (changed is unsigned)


def test_both_are_signed_by_one_key() -> None:
    extension, earlier, later = middle()
    both = [signed(checkpoint.statement, OTHER) for checkpoint in (earlier, later)]
    assert problems_of(extension, *both) == ()
    for pair in ((both[0], later), (earlier, both[1])):
        assert problems_of(extension, *pair) == ("the checkpoints are signed by different keys",)
    for name, other in (("earlier", both[0]), ("later", both[1])):
        mixed = {"earlier": earlier, "later": later}
        mixed[name] = msgspec.structs.replace(other, key=SIGNER.public)
        assert problems_of(extension, mixed["earlier"], mixed["later"]) == (
            f"the {name} checkpoint is not signed by the key in it",
        )


def test_what_it_does_not_prove() -> None:
    """Another log, with the same words: times and deliveries are not in it."""
    extension, earlier, later = middle()
    other = signed(msgspec.structs.replace(later.statement, log=bytes(32)))
    assert problems_of(extension, earlier, other)
    forged = replaced(extension, steps=(*extension.steps[:-1], other.statement))
    assert problems_of(forged, earlier, other) == ()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"sottovoce extension 1\n",
        b"sottovoce extension 2\n" + pack([[], []]),
        b"sottovoce receipt 1\n" + pack([[], []]),
        b"sottovoce extension 1\n" + pack([[], [], []]),
        b"sottovoce extension 1\n" + pack([[]]),
        b"sottovoce extension 1\n" + pack([[], [b"x"]]),
        b"sottovoce extension 1\n" + pack([[], ["x" * 32]]),
        b"sottovoce extension 1\n" + pack([[], [["anna", None, [0, bytes(32)], []]]]),
        b"sottovoce extension 1\n" + pack([[], [["anna", [0, bytes(32)], [1, bytes(32)], []]]]),
        b"sottovoce extension 1\n" + pack([[], [["anna", None, [1, bytes(32)], [], 1]]]),
        b"sottovoce extension 1\n" + pack([[], []]) + b"\0",
        b"sottovoce extension 1\n" + b"\x92\x90\xdc\0\0",
        b"sottovoce extension 1\n" + b"\x91" * 100_000,
    ],
)
def test_of_what_is_none(content: bytes) -> None:
    with pytest.raises(ValueError, match="extension"):
        decode_extension(content)


def test_an_extension_of_a_large_survey() -> None:
    """32,561 parties, by the trees alone: most have said nothing, or each one word more."""
    names = [AGGREGATOR, *(PartyId(f"party-{i:05}") for i in range(1, 32_562))]
    first = checkpoints_of(record())[0]
    one, two = Tree(), Tree()
    for tree, words in ((one, [b"a"]), (two, [b"a", b"b"])):
        for word in words:
            tree.append(word)
    path = (leaf_hash(b"b"),)
    assert two.root() == inner_hash(one.root(), *path)
    before, after = (1, one.root()), (2, two.root())
    for speak, most in ((1, 2_000), (100, 60_000), (len(names), 4_200_000)):
        nodes: list[bytes | Grown] = [leaf_hash(b"header")]
        old, new = Tree(), Tree()
        for tree in (old, new):
            tree.append(b"header")
        for i, name in enumerate(names):
            speaks = i * speak // len(names) > (i - 1) * speak // len(names)
            leaves = [pack([name, *before]), pack([name, *(after if speaks else before)])]
            old.append(leaves[0])
            new.append(leaves[1])
            nodes.append(
                Grown(member=name, before=before, after=after, path=path)
                if speaks
                else leaf_hash(leaves[0])
            )
        earlier = next_after(first, old.root())
        later = next_after(earlier, new.root(), 70_000)
        extension = Extension(steps=(later.statement,), tree=prune(nodes))
        assert len(extension.grown) == speak
        encoded = encode_extension(extension)
        assert problems_of(decode_extension(encoded), earlier, later) == ()
        assert len(encoded) < most


def test_no_repr_shows_a_hash() -> None:
    extension, _, _ = middle()
    assert repr(extension) == "Extension(3 steps, 5 members)"
    assert repr(extension.grown[1]) == "Grown('party-1', 4 more)"
