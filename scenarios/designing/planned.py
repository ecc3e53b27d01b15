"""Lines of TOML that make a variant from the plan's survey."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from protocol.session.variant import Variant, plain_parameters
from protocol.variants import BUILT_IN
from protocol.variants.sums.tallies import Counted
from scenarios.data.own_tables.plan_text import toml_text
from scenarios.designing.summing import AmongHonest
from scenarios.running.making import make_variant, shorthands

Words = dict[str, Any]

_CHOSEN = ("oracle", "k", "block")
"""Parameters that a design chooses: a plan says them where they are usual, too."""


def plan_lines(
    variant: Variant, epsilon: float, among: AmongHonest | None = None
) -> tuple[str, ...]:
    """The lines that name a built-in variant and its parameters, as far as these are not usual.

    They belong above the first table of a plan.

    Args:
        epsilon: the epsilon that it was made for, in nats.
        among: the honest parties that the epsilon rests on, if any.

    Returns:
        None at all for a variant of a person's own: a plan names it by where its file is.
    """
    cls = type(variant)
    if BUILT_IN.get(cls.name) is not cls:
        return ()
    words = {"variant": cls.name, **_shortest(variant, epsilon, among)}
    return tuple(f"{name} = {_toml(value)}" for name, value in words.items())


def _shortest(variant: Variant, epsilon: float, among: AmongHonest | None) -> Words:
    """Parameters of a variant in short form: ``p``, ``epsilon`` or ``noise`` where possible."""
    usual = {
        info.name: msgspec.to_builtins(info.default)
        for info in msgspec.structs.fields(type(variant))
        if not info.required and info.name not in _CHOSEN and info.default is not msgspec.UNSET
    }
    words = _unusual(plain_parameters(variant), usual)
    rest = {name: value for name, value in words.items() if not name.startswith("randomizer")}
    if isinstance(variant, Counted):
        return _count_parameters(rest, epsilon, among)
    for short in _shorthands(variant, epsilon):
        if make_variant(type(variant), variant.survey, {**short, **rest}, strict=True) == variant:
            return {**short, **rest}
    return words


def _count_parameters(words: Words, epsilon: float, among: AmongHonest | None) -> Words:
    """Parameters of counts, with the privacy that their coins were made for."""
    noise: Words = {"noise": "none"}
    if among is not None:
        noise = {
            "noise": "coins",
            "epsilon": epsilon,
            "delta": among.delta,
            "parties": among.parties,
        }
    sums = {name: value for name, value in words.get("sums", {}).items() if name != "noise"}
    rest = {name: value for name, value in words.items() if name != "sums"}
    return {**noise, **rest, **({"sums": sums} if sums else {})}


def _unusual(given: Mapping[str, Any], usual: Mapping[str, Any]) -> Words:
    """Parameters that differ from their defaults, also within tables."""
    return {
        name: _unusual(value, usual[name]) if isinstance(usual.get(name), Mapping) else value
        for name, value in given.items()
        if name not in usual or value != usual[name]
    }


def _shorthands(variant: Variant, epsilon: float) -> Iterator[Words]:
    """Shorthands that may have made its randomizers."""
    shorts = shorthands(type(variant))
    if "epsilon" in shorts:
        yield {"epsilon": epsilon}
    if "p" in shorts:
        keeps = {
            keep
            for made in getattr(variant, "randomizers", ())
            for keep in (made.uniform_keep,)
            if keep is not None
        }
        yield from ({"p": keep} for keep in sorted(keeps))


def _toml(value: object) -> str:
    """A value on one line of TOML; JSON's texts, numbers and truth values are TOML's too."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{name} = {_toml(each)}' for name, each in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return toml_text(value) if isinstance(value, str) else json.dumps(value)
