"""Places open to anybody who comes late: spare ones, and withdrawn ones."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from parties.keeping.lines import lines_in, open_lines
from parties.keeping.writing import naming
from protocol.errors import UsageError
from protocol.messages import PartyId
from protocol.session.charter import Charter
from protocol.wire.undecoded import Undecoded

LINK: Final = "link"
"""Word in a charter for keys that came through links."""

SPARES, WITHDRAWALS, HANDED_OUT = "spares.json", "withdrawn.jsonl", "handed-out.jsonl"
"""Files in the aggregator's folder. The last two grow while answers are taken."""

MOST_REASON = 200
"""The longest reason for a withdrawal, in characters."""

_LOST = "what was withdrawn"


class Withdrawal(NamedTuple):
    """A place that takes no answer any more.

    Args:
        place: its id.
        reason: why, for the record; may be empty.
        instead: the spare place that was handed out for it, or None. It takes no answer if the
            first place has answered, so that nobody answers twice.
        by_another: whether it takes one all the same, since another person has answered in the
            first.
    """

    place: PartyId
    reason: str = ""
    instead: PartyId | None = None
    by_another: bool = False


class HandedOut(NamedTuple):
    """A spare place of somebody who came late.

    Args:
        place: its id.
        to: its holder, by the invited name.
    """

    place: PartyId
    to: PartyId


_NAMES = msgspec.json.Decoder(tuple[PartyId, ...])
_LINE = msgspec.json.Decoder(Withdrawal)
_HANDED = msgspec.json.Decoder(HandedOut)


def linked(charter: Charter) -> tuple[PartyId, ...]:
    """Places that are answered through links, spare ones included, in the roster's order."""
    return tuple(charter.roster.members[place][0] for place in charter.places_enrolled(LINK))


def spares(folder: Path) -> tuple[PartyId, ...]:
    """Places that were kept back when the links were made, in the roster's order.

    Args:
        folder: the aggregator's.

    Raises:
        UsageError: their file is missing or malformed.
        OSError: it cannot be read.
    """
    path = folder / SPARES
    if not path.exists():
        raise UsageError(f"{path}: no such file, so nobody answers this survey through links")
    with naming(path):
        content = path.read_bytes()
    try:
        return _NAMES.decode(content)
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(f"{path}: {Undecoded.of(error)}") from error


def withdrawals(folder: Path) -> Sequence[Withdrawal]:
    """Withdrawals so far, in their order. The file is read again only once it has changed.

    Args:
        folder: the aggregator's.

    Raises:
        UsageError: their file is malformed.
        OSError: it cannot be read.
    """
    path = folder / WITHDRAWALS
    try:
        status = path.stat()
    except FileNotFoundError:
        return ()
    return _read(path, (status.st_ino, status.st_size, status.st_mtime_ns))


@functools.lru_cache(maxsize=4)
def _read(path: Path, version: tuple[int, int, int]) -> Sequence[Withdrawal]:
    return tuple(lines_in(path, _LINE, lost=_LOST))


def unused_spares(folder: Path) -> tuple[PartyId, ...]:
    """Spare places that were not handed out and not withdrawn, in their order.

    Args:
        folder: the aggregator's.

    Raises:
        UsageError: a file about them is malformed.
        OSError: it cannot be read.
    """
    if not (folder / SPARES).exists():
        return ()
    used = _used_places(withdrawals(folder), handed_out(folder))
    return tuple(place for place in spares(folder) if place not in used)


def handed_out(folder: Path) -> Sequence[HandedOut]:
    """Spare places that were handed out to latecomers, in order.

    Args:
        folder: the aggregator's.

    Raises:
        UsageError: their file is malformed.
        OSError: it cannot be read.
    """
    return lines_in(folder / HANDED_OUT, _HANDED, lost=_LOST)


def hand_out(folder: Path, to: PartyId) -> PartyId | None:
    """Hand out a spare place to a latecomer; it is noted before the call returns.

    Args:
        folder: the aggregator's folder.
        to: the person. One with a place gets the same again.

    Returns:
        The place; None if none is left.

    Raises:
        UsageError: a file about them is malformed.
        OSError: it cannot be written.
    """
    with ExitStack() as locked:
        # The same lock as that of ``withdraw``, which hands out places too.
        locked.enter_context(open_lines(folder / WITHDRAWALS, _LINE, None, lost=_LOST))
        handed = open_lines(folder / HANDED_OUT, _HANDED, None, lost=_LOST)
        lines = locked.enter_context(handed)
        for place, holder in lines.values:
            if holder == to:
                return place
        left = unused_spares(folder)
        if not left:
            return None
        lines.add(HandedOut(left[0], to))
        return left[0]


def replaced_by(withdrawal: Withdrawal, withdrawn: Sequence[Withdrawal]) -> list[PartyId]:
    """Places of one person, as far as the organiser knows: those that a spare one replaces.

    Args:
        withdrawal: the withdrawal that the spare place was handed out for.
        withdrawn: all withdrawals; its place may itself have been handed out for another one.
    """
    found = list[PartyId]()
    before = {each.instead: each for each in withdrawn}
    each: Withdrawal | None = withdrawal
    while each is not None and not each.by_another and each.place not in found:
        found.append(each.place)
        each = before.get(each.place)
    return found


def withdraw(folder: Path, charter: Charter, withdrawal: Withdrawal) -> None:
    """Note that a place is withdrawn; it is on disk before the call returns.

    Args:
        folder: the aggregator's.
        charter: of the survey, with the whole roster.
        withdrawal: the place, and what was handed out for it.

    Raises:
        UsageError: a place that this survey has not or that was withdrawn already, one to be handed
            out that is not an unused spare, or a reason that does not fit a line.
        OSError: it cannot be written.
    """
    place, reason, instead, by_another = withdrawal
    if {"#", "."} & {*place}:
        raise UsageError("expected the id of a place, not its link")
    if place not in charter.roster.parties:
        raise UsageError(f"{place!r:.80}: expected a place of this survey")
    if len(reason) > MOST_REASON or not reason.isprintable():
        raise UsageError(
            f"the reason: expected at most {MOST_REASON} characters, all of them printable"
        )
    kept = spares(folder)
    with open_lines(folder / WITHDRAWALS, _LINE, None, lost=_LOST) as lines:
        used = _used_places(lines.values, handed_out(folder))
        before = [each.instead for each in lines.values if each.place == place]
        # A place withdrawn without a spare one may get one later.
        if before and not by_another and (instead is None or any(before)):
            raise UsageError(f"{place!r} was withdrawn before")
        if instead is not None and instead not in kept:
            raise UsageError(f"{instead!r:.80}: expected a spare place")
        if instead is not None and instead in {*used, place}:
            raise UsageError(f"{instead!r} is not spare any more")
        lines.add(withdrawal)


def _used_places(withdrawn: Sequence[Withdrawal], handed: Sequence[HandedOut]) -> set[PartyId]:
    gone = {name for each in withdrawn for name in (each.place, each.instead) if name is not None}
    return gone | {each.place for each in handed}
