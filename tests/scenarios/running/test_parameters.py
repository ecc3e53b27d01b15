"""Parameters of scenarios, taken from variants and from functions that make records."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from protocol import Records
from protocol.errors import UsageError
from protocol.variants import RRBA, RRClusters, RRIndependent
from scenarios import Context, Positive, Scenario, made, settable, town
from scenarios.data.town import TOWN
from scenarios.running.loading import all_scenarios
from scenarios.running.parameters import Spread


class Own(msgspec.Struct, frozen=True, kw_only=True):
    """Of a scenario.

    Args:
        n: how many.
        z: the scenario's ``own``. It is not that of the variant.
    """

    n: int = 5
    z: float = 2.0


def people(context: Context, people: Positive = 20) -> Records:
    """Some of the town.

    Args:
        people: how many are
            asked.

    Raises:
        ValueError: never.
    """
    return town(people, seed=context.seed)


def described(parameters: type[msgspec.Struct]) -> list[tuple[str, str, str]]:
    def run(parameters: Any, context: Context) -> Any:
        raise NotImplementedError

    return Scenario(name="s", summary="", parameters=parameters, run=run).describe()


def test_names_defaults_and_help_are_those_of_the_fields() -> None:
    made_of = settable(
        Own, RRBA, names=("n", "mix", "z", "allow_unbounded"), renamed={"mix": "lambda"}
    )
    assert described(made_of) == [
        ("n", "5", "how many"),
        ("lambda", "1.0", "share of uniform in the table of fakes"),
        ("z", "2.0", "the scenario's own"),
        ("allow-unbounded", "false", "allow tables with a zero, which cost infinity"),
    ]
    assert msgspec.convert({"lambda": 0.5}, made_of) == made_of(mix=0.5)
    with pytest.raises(msgspec.ValidationError, match=r"<= 1.0 - at `\$.lambda`"):
        msgspec.convert({"lambda": 1.5}, made_of)


def test_every_field_that_is_not_of_all_variants_unless_some_are_named() -> None:
    made_of = settable(Spread, RRClusters, p=0.5, tv=6, td=0.25)
    names = [name for name, _, _ in described(made_of)]
    assert names == ["p", "tv", "td", "dependence", "measure", "sums", "parties", "drop", "project"]


def test_what_has_no_default_is_refused() -> None:
    with pytest.raises(TypeError, match="'tv' has no default"):
        settable(Own, RRClusters, names=("tv",))
    with pytest.raises(TypeError, match=r"'tx': expected one of .*tv"):
        settable(Own, RRClusters, names=("tx",), tx=1)


def test_a_variant_is_made_of_those_it_has() -> None:
    parameters = settable(Own, RRBA, names=("n", "mix", "k", "p"), p=0.25)(mix=0.5)
    assert made(RRBA, parameters, survey=TOWN, k=1) == RRBA(survey=TOWN, p=0.25, mix=0.5, k=1)
    with pytest.raises(UsageError, match="mix 0 allows a table with a zero"):
        made(RRBA, parameters, survey=TOWN, mix=0.0)


def test_a_scenario_of_a_variant_and_records() -> None:
    scenario = Scenario.of(
        RRIndependent.with_keep, name="town", summary="A town.", records=people, p=0.5
    )
    assert scenario.describe() == [
        ("people", "20", "how many are asked"),
        ("p", "0.5", "probability of keeping an answer"),
        ("parties", "", "over how many they are spread; one each"),
    ]
    finished = scenario.run(scenario.configure({"people": "12", "parties": "3"}), Context(seed=1))
    assert len(finished.outcome.endings) == 3
    assert finished.outcome.variant == RRIndependent.with_keep(TOWN, 0.5).__replace__(max_records=4)
    with pytest.raises(UsageError, match="'parties' = 21: more than the 20 records"):
        scenario.run(scenario.configure({"parties": 21}), Context())


@pytest.mark.parametrize("scenario", all_scenarios(), ids=lambda scenario: scenario.name)
def test_every_parameter_says_what_it_is(scenario: Scenario[Any]) -> None:
    assert [name for name, _, said in scenario.describe() if not said] == []
