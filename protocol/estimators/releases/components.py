"""Tables by their components, and operators that treat all categories of an attribute alike.

A table over k attributes is the sum of 2**k components: a constant, the main effects of its
attributes and their interactions. The component of a set S of attributes is the margin of S less
the mean along each of its axes, spread evenly over the other axes (analysis of variance). It is the
same in every table that has S.

An operator is given by one coefficient per component, ``coefficients[s_1, ..., s_k]`` with
``s_i = 1`` where attribute i is in S. Its matrix has one entry per set of attributes on which row
and column agree, ``entries[e_1, ..., e_k]`` with ``e_i = 1`` where they agree on attribute i. Both
have the shape ``(2,) * k``, so that no matrix of the size of a table squared is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from protocol.randomizers.exact import Floats


def applied(coefficients: Floats, table: Floats, axis: int = 0) -> Floats:
    """Every component of a table times its coefficient, added up.

    Args:
        coefficients: shape ``(2,) * k``.
        table: k axes after the first ``axis`` ones, along which nothing is done.

    Returns:
        An array of the table's shape.
    """
    first = float(coefficients.flat[0])
    if (coefficients == first).all():
        return first * table
    outside, inside = coefficients
    mean = table.mean(axis=axis, keepdims=True)
    found: Floats = applied(inside, table, axis + 1) + applied(outside - inside, mean, axis + 1)
    return found


def coefficients_to_entries(coefficients: Floats, sizes: Sequence[int]) -> Floats:
    """The entries of operators' matrices.

    Args:
        coefficients: shape ``(..., *(2,) * k)``, of any number of operators.
        sizes: the number of categories of each of the k attributes.
    """
    found = coefficients
    for axis, size in enumerate(sizes, -len(sizes)):
        outside, inside = np.moveaxis(found, axis, 0)
        apart = (outside - inside) / size
        found = np.stack([apart, apart + inside], axis=axis)
    return found


def entries_to_coefficients(entries: Floats, sizes: Sequence[int]) -> Floats:
    """Coefficients of operators with such entries: inverts ``coefficients_to_entries``."""
    found = entries
    for axis, size in enumerate(sizes, -len(sizes)):
        apart, together = np.moveaxis(found, axis, 0)
        inside = together - apart
        found = np.stack([inside + size * apart, inside], axis=axis)
    return found


def margin_factors(coefficients: Floats, sizes: Sequence[int]) -> Floats:
    """Factors of a table's margins for the same sum as of its components.

    Args:
        coefficients: shape ``(2,) * k``.
        sizes: the number of categories of each of the k attributes.

    Returns:
        One factor per set of attributes, of that shape: of the table's sums over all others.
    """
    found = coefficients
    for axis, size in enumerate(sizes, -len(sizes)):
        outside, inside = np.moveaxis(found, axis, 0)
        found = np.stack([(outside - inside) / size, inside], axis=axis)
    return found


def meeting(inside: Sequence[bool], outside: float, value: float) -> Floats:
    """One number for the components without any of the marked attributes, another for the rest.

    Returns:
        Of shape ``(2,) * k``, but of length 1 along the axes that are not marked.
    """
    found = np.full(tuple(2 if one else 1 for one in inside), value)
    found[(0,) * len(inside)] = outside
    return found


def component_subsets(inside: Sequence[bool]) -> tuple[slice, ...]:
    """Places of the components with all attributes among those marked."""
    return tuple(slice(0, 2 if one else 1) for one in inside)


def shared_components(
    tables: Sequence[tuple[str, ...]],
    shares: Callable[[tuple[str, ...], Sequence[str]], Floats],
    names: Sequence[str],
    sizes: Sequence[int],
    coefficients: Floats,
) -> Floats:
    """The components of a table that are in some other tables, times coefficients, added up.

    Args:
        tables: the attributes of the other tables, which agree on what they have in common.
        shares: the shares of some attributes in one of these tables.
        names: the attributes of the table.
        sizes: their numbers of categories.
        coefficients: shape ``(2,) * k``, 0 for components that no other table has.
    """
    found = np.zeros(tuple(sizes))
    left = coefficients.copy()
    # The largest tables first, so that few are needed.
    for table in sorted(tables, key=lambda table: -len(set(table) & set(names))):
        inside = [name in table for name in names]
        where = component_subsets(inside)
        if not left[where].any():
            continue
        kept = [name for name in names if name in table]
        part = applied(left[where].reshape((2,) * len(kept)), shares(table, kept))
        found += spread(part, inside, sizes)
        left[where] = 0.0
    return found


def spread(part: Floats, inside: Sequence[bool], sizes: Sequence[int]) -> Floats:
    """A table of the marked attributes, spread evenly over the others, of length 1 there.

    Args:
        part: one axis per marked attribute.
        inside: for each attribute of the whole table, whether the part has it.
        sizes: the number of categories of each attribute of the whole table.
    """
    others = math.prod(size for size, one in zip(sizes, inside, strict=True) if not one)
    shape = [size if one else 1 for size, one in zip(sizes, inside, strict=True)]
    return part.reshape(shape) / others
