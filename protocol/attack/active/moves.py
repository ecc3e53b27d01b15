"""Scripts to be tried: single moves, and combinations made from useful scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from protocol.attack.active.script import Edit, Move, Scope, Script, Source
from protocol.attack.active.worlds import Library, Study
from protocol.crypto.randomness import Stream
from protocol.messages import KERNEL_KINDS, PartyId

MOVES = 4
"""The most moves of a combined script."""

SCOPES: tuple[Scope, ...] = ("target", "all", "others")


def single_moves(study: Study, library: Library) -> list[Script]:
    """Scripts of one move, or of the same move on every message of another world."""
    return [script for sort in _sorts(study, library) for script in sort]


def sampled(study: Study, library: Library, *, most: int, stream: Stream) -> list[Script]:
    """Scripts of single moves, some of every sort, at most ``most``."""
    sorts = [list(dict.fromkeys(sort)) for sort in _sorts(study, library)]
    shuffled = []
    for number in stream.derive("sorts").permutation(len(sorts)).tolist():
        sort = sorts[number]
        order = stream.derive(f"sort {number}").permutation(len(sort)).tolist()
        shuffled.append([sort[place] for place in order])
    found: dict[Script, None] = {}
    for turn in range(max(map(len, shuffled), default=0)):
        found.update(dict.fromkeys(sort[turn] for sort in shuffled if turn < len(sort)))
        if len(found) >= most:
            break
    return list(found)[:most]


def _sorts(study: Study, library: Library) -> Iterator[list[Script]]:
    """Scripts of single moves by sort: the message, its change and its recipients."""
    yield from _imagined_scripts(study, library)
    for sender in study.hostile:
        for sort in _sorts_by(study, library, sender):
            # The only hostile member need not be named.
            yield sort if len(study.hostile) == 1 else [_by_sender(one, sender) for one in sort]


def _by_sender(script: Script, sender: PartyId) -> Script:
    return Script(tuple(msgspec.structs.replace(move, by=sender) for move in script.moves))


def _bodies_to_target(
    study: Study, library: Library, world: int
) -> dict[tuple[str, str, int], bytes]:
    """Messages to the target in a world, by sender (if several), kind and number."""
    return {
        (sender if len(study.hostile) > 1 else "", *slot): body
        for sender in study.hostile
        for slot, body in library.told[world].get((sender, study.party), {}).items()
    }


def _sorts_by(study: Study, library: Library, sender: PartyId) -> Iterator[list[Script]]:
    bodies = library.told[0].get((sender, study.party), {})
    sources = list(_sources(library, bodies))
    for (kind, nth), body in bodies.items():
        yield from _changes(study, kind, nth, body)
        for before in (True, False):
            yield [
                Script((Move("insert", kind, nth, before=before, says=source),))
                for source in sources
            ]
    yield from _insertions(study, library, sender, list(bodies), sources)


def _changes(study: Study, kind: str, nth: int, body: bytes) -> Iterator[list[Script]]:
    """Scripts that change, drop, hold or repeat a message, or restart after it."""
    edits = list(study.grammar.proposals(kind, body))
    rewritten = (
        Script((Move("rewrite", kind, nth, to, (edit,)),))
        for edit in edits
        for to in ("target", "all")
    )
    yield from _by_field(study, kind, rewritten)
    yield [Script((Move(does, kind, nth, to),)) for does in ("drop", "hold") for to in SCOPES]
    # The target accepts one of two different messages.
    yield [
        Script((Move("repeat", kind, nth, edits=(edit,), before=before),))
        for edit in edits
        for before in (False, True)
    ]
    yield [Script((Move("restart", kind, nth),)), Script((Move("repeat", kind, nth),))]


def _insertions(
    study: Study,
    library: Library,
    sender: PartyId,
    slots: Sequence[tuple[str, int]],
    sources: Sequence[Source],
) -> Iterator[list[Script]]:
    """Scripts that insert messages before the first message to the target, or after the last."""
    # A member that sends nothing to the target may do so at the start.
    anchors = dict.fromkeys((*slots[:1], *slots[-1:]) or [("", 0)])
    for number, source in enumerate(sources):
        said = library.any_body((sender, study.party), 0, source.kind, source.nth)
        for (kind, nth), before in zip(anchors, (True, False), strict=False):
            yield [Script((Move("insert", kind, nth, before=before, says=source),))]
        if said is None or source.kind in _KERNEL:
            continue
        kind, nth = next(iter(anchors))
        other = next(one for one in (*sources[number + 1 :], *sources) if one != source)
        for way in (True, False) if slots else (True,):
            edited = [
                Move("insert", kind, nth, edits=(edit,), before=way, says=source)
                for edit in study.grammar.proposals(source.kind, said)
            ]
            yield [Script((move,)) for move in edited]
            # Other messages may fill the target's queue.
            filler = Move("insert", kind, nth, before=way, says=other)
            yield from _by_field(
                study, source.kind, (Script((filler, move)) for move in edited if way)
            )


_KERNEL = frozenset(kind.kind() for kind in KERNEL_KINDS)


def _by_field(study: Study, kind: str, scripts: Iterable[Script]) -> list[list[Script]]:
    """Group the scripts of one edit by its field and by its change."""
    sorts: dict[tuple[object, ...], list[Script]] = {}
    for script in scripts:
        edit = script.moves[-1].edits[0]
        names = tuple(step for step in edit.path if isinstance(step, str))
        how = "" if study.grammar.is_octets(kind, names[0]) else edit.how
        sorts.setdefault((names, how), []).append(script)
    return list(sorts.values())


def _sources(library: Library, told: Iterable[tuple[str, int]]) -> Iterator[Source]:
    kinds = {kind for kind, _ in told}
    yield from (Source(kind) for kind in library.said if kind not in kinds)
    yield from (Source(kind, nth) for kind, nth in told)


def followed(script: Script, study: Study, library: Library, *, stream: Stream) -> list[Script]:
    """A useful script with one further move of every sort."""
    found = []
    for number, sort in enumerate(_sorts(study, library)):
        if not sort:
            continue
        pick = int(stream.derive(f"sort {number}").integers(len(sort)))
        moves = tuple(dict.fromkeys((*script.moves, *sort[pick].moves)))
        if len(moves) <= MOVES:
            found.append(Script(moves))
    return found


def _imagined_scripts(study: Study, library: Library) -> Iterator[list[Script]]:
    """Scripts with messages from a world without values: whole messages, or one field."""
    own, grammar = _bodies_to_target(study, library, 0), study.grammar
    for to in ("all", "target"):
        together: list[Script] = []
        summed: list[Script] = []
        single: list[Script] = []
        for world in range(1, len(library.told)):
            there = _bodies_to_target(study, library, world)
            moves: list[Move] = []
            sums: list[Move] = []
            for (by, kind, nth), body in own.items():
                other = there.get((by, kind, nth))
                if other is None or other == body:
                    continue
                differing = [
                    name
                    for name in grammar.fields(kind)
                    if grammar.field(kind, body, name) != grammar.field(kind, other, name)
                ]
                # A stack has the target's own row, which a real aggregator would leave alone.
                taken = [name for name in differing if not grammar.is_stack(kind, name)]
                if taken:
                    edits = tuple(Edit((name,), "take", world=world) for name in taken)
                    moves.append(Move("rewrite", kind, nth, to, edits, by=by))
                for name in differing:
                    if grammar.is_stack(kind, name):
                        # Some row that is not the target's own.
                        row = 0 if study.target else 1
                        edit = Edit((name,), "sums", cells=(row,), world=world)
                        sums.append(Move("rewrite", kind, nth, to, (edit,), by=by))
            if sums:
                stacks = {move.of for move in sums}
                others = [move for move in moves if move.of not in stacks]
                summed.append(Script((*sums, *others)))
            if moves:
                together.append(Script(tuple(moves)))
            if len(moves) > 1:
                single += [Script((move,)) for move in moves]
        yield from (together, summed, single)


def combined(corpus: Sequence[Script], singles: Sequence[Script], stream: Stream) -> Script:
    """A script made from others.

    Args:
        corpus: the useful scripts.
        singles: scripts of one move.
    """
    words = [int(word) for word in stream.words(8)]
    base = corpus[words[0] % len(corpus)] if corpus else Script()
    moves = list(base.moves)
    for turn in range(1 + words[1] % 2):
        way, pick, place = words[2 + 2 * turn] % 8, words[3 + 2 * turn], words[6] >> turn
        at = place % len(moves) if moves else 0
        if way == 0 and len(moves) > 1:
            del moves[at]
        elif way == 1 and moves:
            scope = SCOPES[pick % len(SCOPES)]
            moves[at] = msgspec.structs.replace(moves[at], to=scope)
        elif way == 2 and moves:
            moves[at] = _with_edit(moves[at], singles[pick % len(singles)])
        elif way == 3 and moves:
            moves[at] = msgspec.structs.replace(moves[at], before=not moves[at].before)
        elif way == 4 and corpus:
            moves += corpus[pick % len(corpus)].moves
        elif singles:
            moves += singles[pick % len(singles)].moves
    return Script(tuple(dict.fromkeys(moves[:MOVES])))


def _with_edit(move: Move, other: Script) -> Move:
    """A move with the edit of another script on the same kind."""
    for one in other.moves:
        if one.of == move.of and one.edits and len(move.edits) < MOVES:
            return msgspec.structs.replace(move, edits=(*move.edits, one.edits[0]))
    return move


def smallest(script: Script, suffices: Callable[[Script], bool], *, most: int) -> Script:
    """The smallest script that suffices, by single steps.

    Args:
        script: suffices.
        suffices: tests a smaller script.
        most: the most tests.
    """
    best, left = script, most
    while left > 0:
        for one in smaller(best):
            left -= 1
            if suffices(one):
                best = one
                break
            if left <= 0:
                break
        else:
            return best
    return best


def smaller(script: Script) -> Iterator[Script]:
    """Scripts with a move less, then with a simpler move."""
    moves = script.moves
    for at in range(len(moves)):
        yield Script(moves[:at] + moves[at + 1 :])
    for at, move in enumerate(moves):
        for simpler in _simpler(move):
            yield Script((*moves[:at], simpler, *moves[at + 1 :]))


def _simpler(move: Move) -> Iterator[Move]:
    replace = msgspec.structs.replace
    for at in range(len(move.edits)):
        yield replace(move, edits=move.edits[:at] + move.edits[at + 1 :])
    if move.does in ("repeat", "hold") and move.edits:
        yield replace(move, does="rewrite", before=False, wait=1)
    if move.to != "target":
        yield replace(move, to="target")
    if move.wait > 1:
        yield replace(move, wait=1)
    for at, edit in enumerate(move.edits):
        for simpler in _simpler_edits(edit):
            yield replace(move, edits=(*move.edits[:at], simpler, *move.edits[at + 1 :]))


def _simpler_edits(edit: Edit) -> Iterator[Edit]:
    """Edits with simpler values; every chain of them ends."""
    value = edit.value
    if edit.how == "move" and value is not None:
        yield msgspec.structs.replace(edit, value=None)
    if edit.how in ("set", "fill", "add", "shift") and type(value) is int:
        for simpler in (0, 1):
            if abs(value) > simpler:
                yield msgspec.structs.replace(edit, value=simpler)
