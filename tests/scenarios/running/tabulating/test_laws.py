"""The laws of the scenarios' own data: what people by law are drawn from."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from protocol import Population, Stream, secret_of
from protocol.variants.keyvalue.records import key_values
from scenarios import (
    Context,
    find_scenario,
    survey_network,
    taxi,
    taxi_distribution,
    town,
    town_distribution,
)
from scenarios.data.key_populations import KeyPopulation
from scenarios.data.taxi import taxi_population
from scenarios.data.town import town_population
from scenarios.running.tabulating import surveyed
from tests.statistical import ALPHA, chi_square_p_value

STREAM = Stream(secret_of(11))
K = 100_000
KEYS = KeyPopulation(
    name="keys",
    keys=("a", "b"),
    shares=np.array([[0.2, 0.3], [1.0, 0.0]]),
    values=np.array([[-1.0, 0.5], [0.0, 1.0]]),
)


def test_the_records_of_a_seed_are_drawn_from_the_law() -> None:
    network = survey_network(None)
    assert town(50, seed=3) == town_population().draw(50, Stream(secret_of(3)).derive("town"))
    assert taxi(50, d=9, seed=3) == taxi_population(9).draw(50, Stream(secret_of(3)).derive("taxi"))
    assert network.sample(50, STREAM) == network.population().draw(50, STREAM)


@pytest.mark.parametrize(
    ("population", "law"),
    [
        (town_population(), town_distribution()),
        (taxi_population(4), taxi_distribution(["CC", "Toll", "Far", "Night_pick"])),
    ],
    ids=["town", "taxi"],
)
def test_people_follow_the_law(population: Population, law: np.ndarray) -> None:
    again = pickle.loads(pickle.dumps(population))
    drawn = again.draw(K, STREAM)
    assert drawn.survey == population.survey
    counts = drawn.counts(population.survey.names)
    assert counts.shape == law.shape
    # Cells of a handful are taken together.
    few = law.reshape(-1) * K < 20
    observed = np.append(counts.reshape(-1)[~few], counts.reshape(-1)[few].sum())
    expected = np.append(law.reshape(-1)[~few], law.reshape(-1)[few].sum())
    if not few.any():
        observed, expected = observed[:-1], expected[:-1]
    assert chi_square_p_value(observed, expected) > ALPHA
    assert chi_square_p_value(observed[::-1], expected) < ALPHA


def test_holders_of_keys_follow_the_law() -> None:
    law = pickle.loads(pickle.dumps(KEYS.law()))
    drawn = law.draw(K, STREAM)
    held = key_values(drawn.survey)[np.arange(2), drawn.codes]
    assert (held[:, 1] == 0.0).all()
    counts = [np.isnan(held[:, 0]).sum(), (held[:, 0] == -1.0).sum(), (held[:, 0] == 0.5).sum()]
    assert chi_square_p_value(counts, [0.5, 0.2, 0.3]) > ALPHA
    assert chi_square_p_value(counts, [0.48, 0.22, 0.3]) < ALPHA


def test_a_town_of_numbers_follows_its_law() -> None:
    scenario = find_scenario("town-means")
    asked = surveyed(scenario, scenario.configure({"residents": 10}), Context(seed=3))
    drawn = asked.population.draw(K, STREAM)
    for column, draws in enumerate((2, 3)):
        size = drawn.survey.sizes[column]
        reached = 1 - np.arange(size + 1) / size
        law = reached[:-1] ** draws - reached[1:] ** draws
        counts = np.bincount(drawn.codes[:, column], minlength=size)
        few = law * K < 20
        observed, expected = (
            np.append(each[~few], each[few].sum()) if few.any() else each for each in (counts, law)
        )
        assert chi_square_p_value(observed, expected) > ALPHA
        assert chi_square_p_value(observed[::-1], expected) < ALPHA
