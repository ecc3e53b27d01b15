"""Shell completion of scenarios, variants and parameters; files of a user are never run."""

from __future__ import annotations

from collections.abc import Iterable

import click
import msgspec
from click.shell_completion import CompletionItem

from protocol.variants import BUILT_IN
from scenarios.running.names import SCENARIOS

NO_TEXT = ("survey", "weights")
"""Fields of a variant that no text on a command line can be."""


def complete_scenario(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The names of scenarios, or files if none fits."""
    return _names(SCENARIOS, incomplete)


def complete_variant(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The names of variants, or files if none fits."""
    return _names(BUILT_IN, incomplete)


def complete_variants(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The names of variants and of frequency oracles, with commas between, or files."""
    from protocol.variants.oracles.names import ORACLES

    before, comma, last = incomplete.rpartition(",")
    return [
        CompletionItem(before + comma + str(item.value), type=item.type)
        for item in _names((*BUILT_IN, *ORACLES), last)
    ]


def complete_scenario_setting(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The parameters of the scenario named on the command line."""
    name = _named_before(ctx, "scenario")
    if name not in SCENARIOS:
        return []
    from scenarios.running.loading import find_scenario

    described = find_scenario(name).describe()
    return [
        CompletionItem(f"{parameter}=", help=description)
        for parameter, _, description in described
        if f"{parameter}=".startswith(incomplete)
    ]


def complete_variant_setting(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The parameters of the variant named on the command line."""
    cls = BUILT_IN.get(_named_before(ctx, "variant"))
    if cls is None:
        return []
    fields = [info.name for info in msgspec.structs.fields(cls) if info.name not in NO_TEXT]
    makers = {"p": "with_keep", "epsilon": "with_epsilon"}
    made = [name for name, maker in makers.items() if hasattr(cls, maker)]
    known = sorted({*fields, *made})
    return [CompletionItem(f"{name}=") for name in known if f"{name}=".startswith(incomplete)]


def _named_before(ctx: click.Context, argument: str) -> str:
    # While an option waits for its value, click has not named the arguments yet.
    given = ctx.params.get(argument) or next(iter(ctx.args), "")
    return str(given)


def _names(known: Iterable[str], incomplete: str) -> list[CompletionItem]:
    found = [CompletionItem(name) for name in known if name.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="file")]
