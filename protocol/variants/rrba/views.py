"""Choice of the groups of attributes that are asked together.

Randomized Response Block Aggregation (RRBA), section 4. A respondent is asked one view, and no
attribute twice in it, so that two reports of one answer never meet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb
from typing import TypeAlias

View: TypeAlias = tuple[tuple[int, ...], ...]
"""Disjoint groups of k attributes: each a rising tuple of places, in lexicographic order."""

MAX_SUBSETS = 2**17
"""The most k-subsets that are arranged into views: seconds, half a minute at worst."""


def design_views(attributes: int | Sequence[str], k: int) -> tuple[View, ...]:
    """Smallest number of views that hold every k-subset of the attributes exactly once.

    There are ``lower_bound(d, k)`` of them; their numbers of groups differ by at most 1, so a view
    has ``d // k`` groups, or one less. For k = 2 this is a round robin: d - 1 views that pair all
    attributes if d is even, d views that leave out one attribute each if d is odd (the paper's
    examples, up to the names of the attributes). Where k divides d, it is Baranyai's theorem:
    ``C(d-1, k-1)`` views that use all attributes. Its general form, that the k-subsets split into
    families of any given sizes in which no attribute occurs twice if that is possible by numbers,
    gives the rest. The result depends on d and k alone.

    Args:
        attributes: how many, d, or their names.
        k: the number of attributes in a group, from 1 to d.

    Returns:
        The views in lexicographic order, with the places of attributes from 0.

    Raises:
        ValueError: k out of range, a repeated name, one text for a sequence of names, or more than
            2**17 k-subsets.
    """
    if isinstance(attributes, str):
        raise ValueError(f"attributes {attributes!r}: expected a number or a sequence of names")
    d = attributes if isinstance(attributes, int) else len(attributes)
    if not isinstance(attributes, int) and len(set(attributes)) < d:
        raise ValueError(f"attributes {list(attributes)}: a name is repeated")
    _check_sizes(d, k)
    if comb(d, k) > MAX_SUBSETS:
        raise ValueError(
            f"{comb(d, k)} groups of {k} of {d} attributes, expected at most {MAX_SUBSETS}"
        )
    views = _round_robin(d) if k == 2 else _baranyai(d, k)
    return tuple(sorted(tuple(sorted(view)) for view in views))


def lower_bound(d: int, k: int) -> int:
    """The fewest views that hold every k-subset of d attributes: ``ceil(C(d, k) / (d // k))``.

    Raises:
        ValueError: k is not from 1 to d.
    """
    _check_sizes(d, k)
    return -(-comb(d, k) // (d // k))


def _check_sizes(d: int, k: int) -> None:
    if not 1 <= k <= d:
        raise ValueError(f"groups of {k} of {d} attributes: expected 1 <= k <= d")


def _round_robin(d: int) -> list[list[tuple[int, ...]]]:
    """Pairs across a circle of attributes; with an even d the last one is in the middle."""
    circle = d - 1 + d % 2
    views: list[list[tuple[int, ...]]] = []
    for turn in range(circle):
        view = [((turn + i) % circle, (turn - i) % circle) for i in range(1, (circle + 1) // 2)]
        if circle < d:
            view.append((turn, circle))
        views.append([tuple(sorted(pair)) for pair in view])
    return views


def _baranyai(d: int, k: int) -> list[list[tuple[int, ...]]]:
    """Split the k-subsets of d attributes into as few families of disjoint sets as possible.

    The proof of Brouwer and Schrijver (1979), as an algorithm: attribute after attribute joins
    groups that begin empty. When l attributes are left, every set S of those before occurs
    ``C(l, k - |S|)`` times among all groups. If a share ``(k - |S|) / l`` of the next attribute
    went to every group, then every S would give ``C(l-1, k - |S| - 1)`` of its occurrences, and a
    view would take the attribute ``lacking / l`` times, which is at most 1. All these sums but the
    last are integers, so there is an integral choice too: an attribute joins at most one group of a
    view, and exactly one of those that lack all that is left.
    """
    subsets, count = comb(d, k), lower_bound(d, k)
    least, more = divmod(subsets, count)
    # A group is a bit mask of its attributes; a view is the number of each of its groups.
    views = [{0: least + (number < more)} for number in range(count)]
    lacking = [k * view[0] for view in views]
    for place in range(d):
        left = d - place
        # Those that must take the attribute lack most, and come first.
        order = sorted((n for n in range(count) if lacking[n]), key=lambda n: -lacking[n])
        choices = {n: [mask for mask in views[n] if mask.bit_count() < k] for n in order}
        masks = {mask for options in choices.values() for mask in options}
        room = {mask: comb(left - 1, k - mask.bit_count() - 1) for mask in masks}
        for number, mask in _assigned(choices, room).items():
            view = views[number]
            view[mask] -= 1
            if not view[mask]:
                del view[mask]
            view[mask | 1 << place] = 1
            lacking[number] -= 1
    return [[_places(mask) for mask in view] for view in views]


def _assigned(choices: Mapping[int, Sequence[int]], room: dict[int, int]) -> dict[int, int]:
    """Give every view one of its masks, by augmenting paths, until no mask has room.

    A view with a mask never loses it again, but may get another. So the first views, in the order
    of ``choices``, are served if that is possible at all: the sets of views that can be served are
    the independent sets of a matroid. ``room`` is used up.
    """
    taken: dict[int, int] = {}
    takers: dict[int, dict[int, None]] = {mask: {} for mask in room}
    # From these masks no room can be reached any more: a search from them has failed.
    closed: set[int] = set()
    places = sum(room.values())
    for first in choices:
        if len(taken) == places:
            break
        reached_from: dict[int, int] = {}
        queue, found = [first], None
        for number in queue:
            for mask in choices[number]:
                if mask in reached_from or mask in closed:
                    continue
                reached_from[mask] = number
                if room[mask]:
                    found = mask
                    break
                queue.extend(takers[mask])
            if found is not None:
                break
        if found is None:
            closed.update(reached_from)
            continue
        room[found] -= 1
        given: int | None = found
        while given is not None:
            number = reached_from[given]
            before = taken.get(number)
            taken[number] = given
            takers[given][number] = None
            if before is not None:
                del takers[before][number]
            given = before
    return taken


def _places(mask: int) -> tuple[int, ...]:
    return tuple(place for place in range(mask.bit_length()) if mask >> place & 1)
