"""Scripts to be tried: single moves in order, then others made of those that led somewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from protocol.attack.active.script import Edit, Move, Scope, Script, Source
from protocol.attack.active.worlds import Library, Study
from protocol.crypto.randomness import Stream
from protocol.messages import KERNEL_KINDS, PartyId

MOVES = 4
"""The most moves of a script that is made of others."""

SCOPES: tuple[Scope, ...] = ("target", "all", "others")


def single_moves(study: Study, library: Library) -> list[Script]:
    """Scripts of one move, or of the same move on every message from another world.

    They are grouped by the change, by what happens to the message, and by recipient.
    """
    return [script for sort in _sorts(study, library) for script in sort]


def sampled(study: Study, library: Library, *, most: int, stream: Stream) -> list[Script]:
    """Scripts of single moves, up to a number: some of every group, drawn if there are more."""
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
    yield from _imagined_scripts(study, library)
    for sender in study.hostile:
        for sort in _sorts_by(study, library, sender):
            # A single one need not be named.
            yield sort if len(study.hostile) == 1 else [_named(script, sender) for script in sort]


def _named(script: Script, sender: PartyId) -> Script:
    return Script(tuple(msgspec.structs.replace(move, by=sender) for move in script.moves))


def _target_messages(
    study: Study, library: Library, world: int
) -> dict[tuple[str, str, int], bytes]:
    """Messages to the target in a world, by sender (if several), kind and number."""
    return {
        (sender if len(study.hostile) > 1 else "", *slot): body
        for sender in study.hostile
        for slot, body in library.told[world].get((sender, study.party), {}).items()
    }


def _sorts_by(study: Study, library: Library, sender: PartyId) -> Iterator[list[Script]]:
    told = library.told[0].get((sender, study.party), {})
    grammar = study.grammar
    sources = list(_sources(library, told))
    for (kind, nth), body in told.items():
        edits = list(grammar.proposals(kind, body))
        yield from _by_field(
            study,
            kind,
            (
                Script((Move("rewrite", kind, nth, to, (edit,)),))
                for edit in edits
                for to in ("target", "all")
            ),
        )
        yield [Script((Move(does, kind, nth, to),)) for does in ("drop", "hold") for to in SCOPES]
        # Of two that differ, one is heeded.
        yield [
            Script((Move("repeat", kind, nth, edits=(edit,), before=before),))
            for edit in edits
            for before in (False, True)
        ]
        yield [Script((Move("restart", kind, nth),)), Script((Move("repeat", kind, nth),))]
        for before in (True, False):
            yield [
                Script((Move("insert", kind, nth, before=before, says=source),))
                for source in sources
            ]
    # A member that sends nothing to the target may do so at the start.
    anchors = dict.fromkeys((*list(told)[:1], *list(told)[-1:]) or [("", 0)])
    for number, source in enumerate(sources):
        said = library.any_body((sender, study.party), 0, source.kind, source.nth)
        for (kind, nth), before in zip(anchors, (True, False), strict=False):
            yield [Script((Move("insert", kind, nth, before=before, says=source),))]
        if said is None or source.kind in _KERNEL:
            continue
        kind, nth = next(iter(anchors))
        other = next(one for one in (*sources[number + 1 :], *sources) if one != source)
        for way in (True, False) if told else (True,):
            edited = [
                Move("insert", kind, nth, edits=(edit,), before=way, says=source)
                for edit in grammar.proposals(source.kind, said)
            ]
            yield [Script((move,)) for move in edited]
            # Where others wait already, there may be no room.
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
    """A script that led somewhere, and after it one move of every sort."""
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
    told, grammar = _target_messages(study, library, 0), study.grammar
    for to in ("all", "target"):
        together: list[Script] = []
        summed: list[Script] = []
        single: list[Script] = []
        for world in range(1, len(library.told)):
            there = _target_messages(study, library, world)
            moves: list[Move] = []
            sums: list[Move] = []
            for (by, kind, nth), body in told.items():
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
    """A script made of others.

    Args:
        corpus: those that led somewhere.
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


def smaller(script: Script) -> Iterator[Script]:
    """Scripts that do a little less, or simpler things, the least first."""
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
