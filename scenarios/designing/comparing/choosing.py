"""The variants to compare, by the names that a person gives, each with parameters chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from protocol.errors import UsageError
from protocol.session.variant import Variant
from protocol.surveys.survey import shown
from protocol.variants import BUILT_IN, Spl
from protocol.variants.oracles.names import ORACLES
from scenarios.designing.candidates import Candidate, Wanted, own_candidate, variant_candidates
from scenarios.running.loading import find_variant, split_path
from scenarios.wording.hints import did_you_mean, name_hint


class Named(NamedTuple):
    """Candidates that a name stands for.

    Args:
        given: the name.
        cls: the variant's class.
        candidate: the name of the one candidate that is meant; empty for all of the variant's.
    """

    given: str
    cls: type[Variant]
    candidate: str = ""

    @property
    def own(self) -> bool:
        """True for a variant in a user's own file."""
        return split_path(self.given)[0] is not None


def parse_name(text: str) -> Named:
    """Resolve a name: ``spl``, one way such as ``smp:oue``, an oracle for ``spl``, or
    ``PATH.py:Class``.

    Raises:
        UsageError: the variant is unknown.
    """
    if split_path(text)[0] is not None:
        return Named(text, find_variant(text))
    whole = f"{Spl.name}:{text}" if text in ORACLES else text
    family, colon, _ = whole.partition(":")
    if family not in BUILT_IN:
        known = (*BUILT_IN, *ORACLES)
        hint = name_hint(text, known) or f"; expected one of {', '.join(known)}."
        raise UsageError(
            f"--variant: no variant {shown(text)}{hint} For a variant of your own, give "
            "PATH.py:Class"
        )
    return Named(text, BUILT_IN[family], whole if colon else "")


def choose_candidates(
    names: Sequence[Named], wanted: Wanted, parameters: Mapping[str, Any]
) -> tuple[Candidate, ...]:
    """Candidates to be compared at one epsilon, each once.

    Args:
        names: names from the command line.
        parameters: the plan's parameters; a user's own variant takes those that it has.

    Raises:
        UsageError: a variant has no such candidate.
    """
    found = chain.from_iterable(_candidates(name, wanted, parameters) for name in names)
    return tuple({each.name: each for each in found}.values())


def _candidates(name: Named, wanted: Wanted, parameters: Mapping[str, Any]) -> Sequence[Candidate]:
    if name.own:
        return (own_candidate(name.cls, parameters, wanted),)
    found = variant_candidates(name.cls, wanted)
    ways = [each.name for each in found]
    if not name.candidate or ways == [name.cls.name]:
        return found
    if name.candidate not in ways:
        hint = did_you_mean(name.candidate, ways) or f"; expected one of {', '.join(ways)}"
        raise UsageError(f"--variant: no variant {shown(name.given)}{hint}")
    return [each for each in found if each.name == name.candidate]
