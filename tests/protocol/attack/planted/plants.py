"""All that is planted: what, where, and by which rule it is to be found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import MappingProxyType

from protocol import Message, Records, Variant
from protocol.sharing.messages import Totals
from protocol.variants import PairCounts, PairRR, RRClusters, SecureSumVariant
from scenarios.cli.example_variants import EXAMPLES, example
from tests.protocol.attack.planted import earlier, oracles, reports, sums
from tests.protocol.attack.planted.oracles import Again, Wanted
from tests.protocol.attack.planted.speech import Doubt, Hold, Receipt, Release, Reminder

EITHER = ("outward", "charge")
"""The rules of what follows a report: where the report may differ, counting shows it."""

LITERAL = '{"profile": "literal"}'
ONE_MISSING = '{"dropped": 0.3}'
"""Of few parties none may be missing by default, and then every one wants the word of all."""


@dataclass(frozen=True, kw_only=True)
class Plant:
    """One fault.

    Args:
        made: the class that it is in.
        of: the built-in variant that it is planted in.
        rules: by which it may be found.
        settings: parameters of the variant besides those of its example.
        rare: kinds that an honest run has not.
        moves: of the smallest script, at most.
        seed: of a search that finds it; with some seeds it takes longer.
        during: makes the kernel have the fault, where it is not the variant's.
    """

    made: type[Variant]
    of: str
    rules: tuple[str, ...] = ("outward",)
    settings: Mapping[str, str] = field(default_factory=dict)
    rare: tuple[type[Message], ...] = ()
    moves: int = 3
    seed: int = 1
    during: Callable[[], AbstractContextManager[None]] = nullcontext

    def example(self, respondents: int = 4) -> tuple[Variant, Records]:
        """The variant with its parameters, and a few respondents."""
        given = {name: str(value) for name, value in EXAMPLES.get(self.of, {}).items()}
        return example(self.made, {**given, **self.settings}, respondents=respondents)


_BY_REPORTS = MappingProxyType({"dependence": "rr"})
_TOLD = MappingProxyType({"everyone": "true"})

ORACLES: Mapping[str, Plant] = MappingProxyType(
    {
        plant.made.name: plant
        for plant in (
            Plant(made=reports.Unworried, of="rr-independent"),
            Plant(made=reports.Outside, of="rr-joint"),
            Plant(made=reports.Objecting, of="rr-ind-joint", rare=(Doubt,)),
            Plant(
                made=sums.Careful,
                of="secure-sum",
                settings={"sums": ONE_MISSING},
                rare=(Totals,),
            ),
            Plant(made=sums.CountedAlready, of="pair-counts", rare=(Totals,)),
            Plant(made=sums.Whispering, of="pair-rr", rare=(Totals, Doubt)),
            Plant(made=reports.Trusting, of="rr-clusters", settings=_BY_REPORTS),
            Plant(made=reports.Eager, of="rrba"),
            Plant(made=oracles.Reminded, of="inp-rr", rules=EITHER, rare=(Reminder,)),
            Plant(made=oracles.AskingBack, of="inp-ps", rare=(Doubt,)),
            Plant(
                made=oracles.DrawnAnew,
                of="inp-ht",
                settings={"epsilon": "5"},
                rare=(Reminder, Again),
            ),
            Plant(made=oracles.Checking, of="marg-rr", rare=(Doubt,)),
            Plant(made=oracles.Renamed, of="marg-ps", rare=(Hold,)),
            Plant(made=oracles.Impatient, of="marg-ht", rare=(Hold, Release)),
            Plant(made=oracles.Obliging, of="privkv", rules=EITHER, rare=(Wanted,)),
            Plant(made=oracles.Sparing, of="privkvm"),
            Plant(
                made=oracles.Insistent,
                of="spl",
                rules=EITHER,
                rare=(Reminder, Release, Receipt),
            ),
            Plant(made=oracles.Wordy, of="smp", rare=(Reminder, Receipt)),
            Plant(made=oracles.Hasty, of="rs-fd", rare=(Hold, Receipt)),
            Plant(made=oracles.Clipped, of="numeric-mean"),
        )
    }
)
"""One in every built-in variant."""

EARLIER: Mapping[str, Plant] = MappingProxyType(
    {
        "own counts in a sparse sum": Plant(
            made=SecureSumVariant, of="secure-sum", settings=_TOLD, during=earlier.own_counts
        ),
        "own counts in a literal sum": Plant(
            made=SecureSumVariant,
            of="secure-sum",
            settings={"sums": LITERAL},
            during=earlier.own_counts,
        ),
        "own counts of pairs": Plant(
            made=PairCounts, of="pair-counts", settings=_TOLD, during=earlier.own_counts
        ),
        "own counts of randomized pairs": Plant(
            made=PairRR, of="pair-rr", settings={**_TOLD, "p": "0.9"}, during=earlier.own_counts
        ),
        "own counts before clusters": Plant(
            made=RRClusters, of="rr-clusters", during=earlier.own_counts
        ),
        "an early mailbox": Plant(
            made=RRClusters,
            of="rr-clusters",
            rules=("charge",),
            settings={**_BY_REPORTS, "p": "0.9"},
            seed=2,
            during=earlier.early_mailbox,
        ),
        "a false table": Plant(
            made=earlier.FalseTable,
            of="rrba",
            rules=("charge",),
            settings={"mix": "0.0005", "p": "0.3"},
        ),
        "masks that repeat": Plant(
            made=earlier.SameMasks, of="secure-sum", rules=("fresh",), rare=(Totals,)
        ),
        "masks of pairs that repeat": Plant(
            made=earlier.SameMasksOfPairs, of="pair-rr", rules=("fresh",), rare=(Totals,)
        ),
    }
)
"""Those that there were, each in the variants that had it."""


def every() -> Iterator[tuple[str, Plant]]:
    """All of them, by name."""
    yield from ORACLES.items()
    yield from EARLIER.items()
