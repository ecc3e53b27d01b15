"""Extensions against an aggregator that lies, knows all words and signs what it likes."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from protocol.messages import PartyId
from protocol.transcript.checkpoints import FIRST, SignedCheckpoint
from protocol.transcript.extension import (
    Extension,
    Grown,
    decode_extension,
    encode_extension,
    problems_of,
)
from tests.recorded.checkpointed import (
    Words,
    checkpoints_of,
    grown_of,
    middle,
    next_after,
    prove,
    record,
    replaced,
    signed,
    spoken,
)
from tests.recorded.transcripts import SESSION

pack = msgspec.msgpack.encode

said = st.lists(st.sampled_from([b"a", b"b"]), max_size=6)


def test_every_step_follows_from_the_one_before() -> None:
    """Each rule by itself: all else fits, and the aggregator has signed it."""
    content = spoken([(1,), ()])
    earlier = checkpoints_of(content)[0]
    digest = earlier.statement.digest

    def problems(first: SignedCheckpoint, last: SignedCheckpoint) -> tuple[str, ...]:
        return problems_of(Extension(steps=(last.statement,), tree=(digest,)), first, last)

    sound = next_after(earlier, digest)
    assert problems(earlier, sound) == ()
    chain = "the checkpoints in it are not a chain from the earlier one"
    few = "fewer entries were added between the checkpoints than envelopes and checkpoints"
    for changes, found in (
        ({"number": 2}, (chain,)),
        ({"previous": FIRST}, (chain,)),
        ({"entries": earlier.statement.entries}, (chain, few)),
        ({"session": SESSION[::-1]}, ("the checkpoints are of different sessions", chain)),
    ):
        last = signed(msgspec.structs.replace(sound.statement, **changes))
        assert problems(earlier, last) == found
    ended = signed(msgspec.structs.replace(earlier.statement, standing=bytes(32)))
    assert problems(ended, next_after(ended, digest)) == (chain,)


def test_what_was_added_is_among_the_entries() -> None:
    content = record()
    earlier, later = checkpoints_of(content)[:2]
    extension = prove(content, earlier, later)
    assert sum(member.added for member in extension.grown) == 1
    for entries, holds in ((2, True), (1, False)):
        last = next_after(earlier, later.statement.digest, entries)
        forged = replaced(extension, steps=(last.statement,))
        few = "fewer entries were added between the checkpoints than envelopes and checkpoints"
        assert problems_of(forged, earlier, last) == (() if holds else (few,))


@pytest.mark.parametrize(
    "after",
    [
        {"anna": [b"a", b"x"], "bert": [b"c"], "carl": []},
        {"anna": [b"b", b"a"], "bert": [b"c"], "carl": []},
        {"anna": [b"a", b"x", b"b"], "bert": [b"c"], "carl": []},
        {"anna": [b"x", b"a", b"b"], "bert": [b"c"], "carl": []},
        {"anna": [b"a"], "bert": [b"c"], "carl": []},
        {"anna": [b"a", b"b"], "bert": [], "carl": []},
        {"anna": [b"c"], "bert": [b"a", b"b"], "carl": []},
        {"anna": [b"a", b"b", b"c"], "bert": [b"x"], "carl": [b"d"]},
    ],
    ids=["changed", "reordered", "between", "in front", "removed", "unsaid", "swapped", "one"],
)
def test_an_aggregator_that_lies_has_none(after: Words) -> None:
    """It signs what it likes, and knows all words: but it has said what was said before."""
    before: dict[str, list[bytes]] = {"anna": [b"a", b"b"], "bert": [b"c"], "carl": []}
    _, digest, _ = grown_of(before, before)
    earlier = next_after(checkpoints_of(record())[0], digest)
    tree, _, lie = grown_of(before, after)
    later = next_after(earlier, lie)
    extension = Extension(steps=(later.statement,), tree=tree)
    [problem] = problems_of(extension, earlier, later)
    changed = [name for name in before if after[name][: len(before[name])] != before[name]]
    says = f"the later envelopes of {changed[0]!r} do not extend the earlier ones"
    assert problem == says + ("; the same holds for 2 members in all" if changed[1:] else "")
    # The same tree with the words as they are.
    more = {**before, "anna": [b"a", b"b", b"x"], "carl": [b"d"]}
    tree, _, digest = grown_of(before, more)
    later = next_after(earlier, digest)
    assert problems_of(Extension(steps=(later.statement,), tree=tree), earlier, later) == ()


def test_a_header_that_changes_does_not_extend() -> None:
    before = {"anna": [b"a"], "bert": []}
    after = {"anna": [b"a"], "bert": [b"b"]}
    _, digest, _ = grown_of(before, before)
    earlier = next_after(checkpoints_of(record())[0], digest)
    for roster in (before, {**before, "carl": []}, {"bert": [], "anna": [b"a"]}):
        words = {name: after.get(name, []) for name in roster}
        for header in (b"header", b"another"):
            tree, _, changed = grown_of(roster, words, header)
            later = next_after(earlier, changed)
            extension = Extension(steps=(later.statement,), tree=tree)
            same = list(roster) == list(before) and header == b"header"
            assert (problems_of(extension, earlier, later) == ()) == same


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.tuples(said, said, st.booleans()), min_size=1, max_size=6),
    st.integers(0, 2),
)
@example([([b"a"], [b"a"], True)], 0)
def test_it_holds_exactly_where_words_are_kept(
    members: list[tuple[list[bytes], list[bytes], bool]], lies: int
) -> None:
    """Some members keep their words and add some, others (at most ``lies``) say anything."""
    before: dict[str, list[bytes]] = {}
    after: dict[str, list[bytes]] = {}
    for i, (one, other, honest) in enumerate(members):
        lies -= not honest
        before[f"party-{i}"] = one
        after[f"party-{i}"] = other if not honest and lies >= 0 else one + other
    kept = all(after[name][: len(before[name])] == before[name] for name in before)
    _, digest, _ = grown_of(before, before)
    earlier = next_after(checkpoints_of(record())[0], digest)
    tree, _, digest = grown_of(before, after)
    later = next_after(earlier, digest)
    extension = Extension(steps=(later.statement,), tree=tree)
    assert (problems_of(extension, earlier, later) == ()) == kept
    try:
        assert (decode_extension(encode_extension(extension)) == extension) or not kept
    except ValueError:
        assert not kept


def test_hostile_extensions_are_refused_and_nothing_worse() -> None:
    _, earlier, later = middle()
    end = (1 << 63) - 1
    huge = Grown(
        member=PartyId("x" * 500), before=(end - 1, bytes(32)), after=(end, bytes(32)), path=()
    )
    for beyond in (end + 1, (1 << 64) - 1):
        larger = Grown(member=huge.member, before=None, after=(beyond, bytes(32)), path=())
        with pytest.raises(ValueError, match="malformed extension"):
            decode_extension(encode_extension(Extension(steps=(), tree=(larger,))))
    deep = Extension(steps=(), tree=(huge, *[huge, None] * 5000))
    for extension in (deep, Extension(steps=(), tree=(None,) * 5000), Extension(steps=(), tree=())):
        problems = problems_of(decode_extension(encode_extension(extension)), earlier, later)
        assert problems
        assert max(map(len, problems)) < 200
