"""A small synthetic town: dependent attributes with a known joint distribution."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from protocol.crypto.randomness import WORDS, Stream, secret_of
from protocol.simulation.populations.population import Law, Population
from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey

TOWN = Survey(
    "Town",
    (
        Attribute(name="district", categories=("harbour", "centre", "hill")),
        Attribute(name="age", categories=("18-29", "30-44", "45-64", "65+"), ordinal=True),
        Attribute(name="smokes", categories=("no", "yes")),
        Attribute(name="clinic", categories=("none", "asthma", "diabetes", "heart disease")),
    ),
)
"""The four attributes of a resident; ``clinic`` is what the clinic treats the resident for."""

PER_CENT = 100

DISTRICT = ((30, 45, 25),)
"""Per cent of the residents in each district."""

AGE = (
    (40, 30, 20, 10),  # harbour: young
    (25, 35, 25, 15),  # centre
    (10, 15, 35, 40),  # hill: old
)
"""Per cent in each age band, one row per district."""

SMOKES = (
    (55, 45),  # harbour
    (75, 25),  # centre
    (85, 15),  # hill
)
"""Per cent who do not smoke and who do, one row per district."""

CLINIC = (
    (90, 8, 1, 1),  # 18-29, does not smoke
    (78, 17, 2, 3),  # 18-29, smokes
    (86, 7, 4, 3),  # 30-44, does not smoke
    (70, 15, 6, 9),
    (73, 6, 12, 9),  # 45-64, does not smoke
    (50, 13, 15, 22),
    (53, 5, 20, 22),  # 65+, does not smoke
    (30, 9, 21, 40),
)
"""Per cent with each diagnosis, one row per age band and, within it, smoking no and yes."""


def town(n: int, seed: int) -> Records:
    """Draw the residents of a town, the same for one seed on every platform.

    Each resident is independent of the others. The dependence within one is

        district -> age,   district -> smokes,   (age, smokes) -> clinic,

    so age and smoking depend on each other through the district alone, and the clinic's diagnosis
    on the district through age and smoking alone. The probabilities are the tables of this module,
    each rounded to a multiple of 2**-64; ``town_distribution`` is their joint table.

    Args:
        n: how many residents, at least 1. The first residents of a larger town are those of a
            smaller one.
        seed: any integer of at least 0.

    Returns:
        Records of ``TOWN``, shape (n, 4).

    Raises:
        ValueError: n below 1 or a negative seed.
    """
    if n < 1:
        raise ValueError(f"a town of {n} residents: expected at least 1")
    return _residents(n, Stream(secret_of(seed)).derive("town"))


def town_population() -> Population:
    """The town's law, to draw residents from."""
    return Law(TOWN, "the distribution of the town", _residents)


def _residents(n: int, stream: Stream) -> Records:
    district = _draw(stream.derive("district"), DISTRICT, np.zeros(n, np.int64))
    age = _draw(stream.derive("age"), AGE, district)
    smokes = _draw(stream.derive("smokes"), SMOKES, district)
    clinic = _draw(stream.derive("clinic"), CLINIC, 2 * age + smokes)
    return Records(TOWN, np.stack([district, age, smokes, clinic], axis=1))


def town_distribution() -> NDArray[np.float64]:
    """The joint distribution that residents are drawn from, shape (3, 4, 2, 4)."""
    _, ages, smoking, diagnoses = TOWN.sizes
    district = np.array(DISTRICT[0]) / PER_CENT
    age = np.array(AGE) / PER_CENT
    smokes = np.array(SMOKES) / PER_CENT
    clinic = np.reshape(CLINIC, (ages, smoking, diagnoses)) / PER_CENT
    joint: NDArray[np.float64] = np.einsum("d,da,ds,asc->dasc", district, age, smokes, clinic)
    return joint


def _draw(
    stream: Stream, table: tuple[tuple[int, ...], ...], given: NDArray[np.int64]
) -> NDArray[np.int64]:
    """One category per resident by the inverse distribution function, one word each.

    ``given`` (shape (n,)) names each resident's row of the table of per cents.
    """
    # The last bound of a row would be 2**64: no word reaches it.
    bounds = np.array(
        [[WORDS * upto // PER_CENT for upto in accumulate(row[:-1])] for row in table], np.uint64
    )
    words = stream.words(len(given))
    drawn = np.zeros(len(given), np.int64)
    for bound in bounds.T:
        drawn += words >= bound[given]
    return drawn
