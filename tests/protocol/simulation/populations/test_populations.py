"""Populations: what is drawn follows the law, and the same words draw the same people."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from protocol import (
    Attribute,
    Law,
    Population,
    Records,
    Resampled,
    Stream,
    Survey,
    SurveyError,
    TableLaw,
    secret_of,
)
from tests.recorded.runs import answers
from tests.statistical import ALPHA, WRONG, chi_square_p_value

PAIR = Survey(
    "pair",
    (
        Attribute(name="a", categories=("x", "y", "z")),
        Attribute(name="b", categories=("no", "yes")),
    ),
)
TABLE = np.array([[0.1, 0.0], [0.25, 0.3], [0.15, 0.2]])
STREAM = Stream(secret_of(3))
K = 200_000


def halves(k: int, stream: Stream) -> Records:
    """People who answer evenly."""
    return Records(PAIR, np.stack([stream.integers(size, k) for size in PAIR.sizes], axis=1))


POPULATIONS: tuple[Population, ...] = (
    Resampled(answers(PAIR, 50)),
    TableLaw(PAIR, TABLE),
    Law(PAIR, "even answers", halves),
)


@pytest.mark.parametrize("population", POPULATIONS, ids=lambda p: type(p).__name__)
def test_the_same_words_draw_the_same_people(population: Population) -> None:
    again = pickle.loads(pickle.dumps(population))
    drawn = population.draw(1000, STREAM.derive("a"))
    assert drawn.survey == population.survey == PAIR
    assert len(drawn) == 1000
    assert again.draw(1000, STREAM.derive("a")) == drawn
    assert again.digest == population.digest
    assert population.draw(1000, STREAM.derive("b")) != drawn
    assert repr(population) == f"<{type(population).__name__}: {population.says}>"


def test_populations_have_digests_of_their_own() -> None:
    others = (
        *POPULATIONS,
        Resampled(answers(PAIR, 50, seed=6)),
        Resampled(answers(PAIR, 50), "some"),
        TableLaw(PAIR, TABLE[::-1]),
        TableLaw(PAIR, TABLE + np.array([[0.0, 0.0], [1e-9, -1e-9], [0.0, 0.0]])),
    )
    assert len({population.digest for population in others}) == len(others)


def test_records_are_drawn_evenly_with_replacement() -> None:
    known = Records(PAIR, np.stack([np.repeat([0, 1, 2], 2), np.tile([0, 1], 3)], axis=1))
    drawn = Resampled(known).draw(K, STREAM).counts(["a", "b"]).reshape(-1)
    assert chi_square_p_value(drawn, np.full(6, 1 / 6)) > ALPHA
    wrong = np.array([WRONG, *[(6 - WRONG) / 5] * 5]) / 6
    assert chi_square_p_value(drawn, wrong) < ALPHA
    assert Resampled(known).records is known
    assert POPULATIONS[1].records is None


def test_cells_of_a_table_are_drawn_by_their_probabilities() -> None:
    drawn = TableLaw(PAIR, TABLE).draw(K, STREAM).counts(["a", "b"])
    assert drawn[0, 1] == 0
    possible = TABLE > 0
    assert chi_square_p_value(drawn[possible], TABLE[possible]) > ALPHA
    wrong = TABLE * np.array([[WRONG, 1.0], [1.0, 1.0], [1.0, 1.0]])
    assert chi_square_p_value(drawn[possible], wrong[possible] / wrong.sum()) < ALPHA


def test_the_bounds_between_cells_are_exact() -> None:
    # Within 16 bits of each other, so that no cell has a run of first bits of its own.
    survey = Survey("s", (Attribute(name="a", categories=("x", "y", "z")),))
    law = TableLaw(survey, [2.0**-20, 1 - 2.0**-19, 2.0**-20])
    bounds = law._bounds.tolist()
    assert bounds == [2**44, 2**64 - 2**44]
    words = np.array([0, bounds[0] - 1, bounds[0], bounds[1] - 1, bounds[1], 2**64 - 1], np.uint64)

    class Given(Stream):
        def words(self, n: int) -> np.ndarray:
            return words[:n].copy()

    drawn = law.draw(len(words), Given(bytes(32)))
    assert drawn.codes[:, 0].tolist() == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (TABLE[:2], "a table of 4 cells: expected 6"),
        (TABLE * 2, "not a probability distribution"),
        (TABLE - 0.01, "not a probability distribution"),
        (np.full((3, 2), np.nan), "not a probability distribution"),
    ],
)
def test_what_is_no_law_is_refused(table: np.ndarray, said: str) -> None:
    with pytest.raises(SurveyError, match=said):
        TableLaw(PAIR, table)
