"""The stand-in of the taxi trips against its stated law; the reader of real trips."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

from scenarios import DatasetError, taxi, taxi_distribution, taxi_trips
from scenarios.data.taxi import BITS, COLUMNS, COPIED, LAWS, taxi_independent, taxi_survey
from tests.statistical import ALPHA, WRONG, chi_square_p_value

# An ordinary trip from Times Square to a place near the Battery.
TRIP = {
    "vendor_id": "VTS",
    "pickup_datetime": "2013-01-14 19:59:59",
    "dropoff_datetime": "2013-01-14 20:11:00",
    "trip_distance": "4.2",
    "pickup_longitude": "-73.9855",
    "pickup_latitude": "40.7580",
    "dropoff_longitude": "-74.0110",
    "dropoff_latitude": "40.7070",
    "payment_type": "CSH",
    "tip_amount": "0",
    "tolls_amount": "0",
    "total_amount": "16.5",
}
JFK = ("-73.7781", "40.6413")


def exactly(values: tuple[int, ...]) -> Fraction:
    """The probability of one trip's bits, in the order of BITS."""
    of = dict(zip(BITS, values, strict=True))
    probability = Fraction(1)
    for name, (parents, per_cents) in LAWS.items():
        place = 0
        for parent in parents:
            place = 2 * place + of[parent]
        yes = Fraction(per_cents[place], 100)
        probability *= yes if of[name] else 1 - yes
    return probability


LAW = {values: exactly(values) for values in product((0, 1), repeat=8)}


def margin(*places: int) -> dict[tuple[int, ...], Fraction]:
    found = dict.fromkeys(product((0, 1), repeat=len(places)), Fraction(0))
    for values, probability in LAW.items():
        found[tuple(values[place] for place in places)] += probability
    return found


def test_distribution_is_the_product_of_the_stated_laws() -> None:
    assert sum(LAW.values()) == 1
    joint = taxi_distribution(BITS)
    assert joint.shape == (2,) * 8
    for values, probability in LAW.items():
        assert joint[values] == pytest.approx(float(probability), rel=1e-12)
    some = taxi_distribution(("Tip", "Far", "CC"))
    for values, probability in margin(7, 2, 0).items():
        assert some[values] == pytest.approx(float(probability), rel=1e-12)


def test_pairs_are_independent_exactly_where_it_says_so() -> None:
    independent = 0
    for i, j in combinations(range(8), 2):
        pair, first, second = margin(i, j), margin(i), margin(j)
        apart = pair[1, 1] - first[1,] * second[1,]
        assert taxi_independent(BITS[i], BITS[j]) is (apart == 0)
        independent += apart == 0
        if apart:
            assert abs(float(apart)) > 0.005
    assert independent == 20
    assert not taxi_independent("CC_3", "Tip")
    assert taxi_independent("CC_3", "Toll_2")


def test_further_bits_are_noisy_copies() -> None:
    keep = COPIED / 100
    flip = np.array([[keep, 1 - keep], [1 - keep, keep]])
    once = np.diag(taxi_distribution(("Far",))) @ flip
    np.testing.assert_allclose(taxi_distribution(("Far", "Far_2")), once, atol=1e-15)
    np.testing.assert_allclose(taxi_distribution(("Far", "Far_3")), once @ flip, atol=1e-15)
    np.testing.assert_allclose(taxi_distribution(("Far_3", "Far")), (once @ flip).T, atol=1e-15)
    assert taxi_survey(24).names[16:] == tuple(f"{name}_3" for name in BITS)
    records = taxi(100_000, d=11, seed=3)
    assert records.survey == taxi_survey(11)
    observed = records.counts(("Far", "Far_2")).reshape(-1)
    assert chi_square_p_value(observed, once.reshape(-1)) > ALPHA
    wrong = (
        np.diag(taxi_distribution(("Far",))) @ np.array([[0.825, 0.175], [0.175, 0.825]])
    ).ravel()
    assert chi_square_p_value(observed, wrong) < ALPHA


def test_trips_follow_the_law() -> None:
    records = taxi(300_000, seed=1)
    names = ("M_pick", "M_drop", "Far", "CC", "Tip", "Night_pick")
    law = taxi_distribution(names)
    observed = records.counts(names).reshape(-1)
    assert chi_square_p_value(observed, law.reshape(-1)) > ALPHA
    # The power arm: 10 % more night trips.
    night = law.sum(axis=(0, 1, 2, 3, 4))[1] * WRONG
    wrong = law.sum(axis=-1)[..., None] * np.array([1 - night, night])
    assert chi_square_p_value(observed, wrong.reshape(-1)) < ALPHA
    pair = ("Night_pick", "Night_drop")
    observed = records.counts(pair).reshape(-1)
    assert chi_square_p_value(observed, taxi_distribution(pair).reshape(-1)) > ALPHA
    pair = ("Far", "Toll")
    observed = records.counts(pair).reshape(-1)
    assert chi_square_p_value(observed, taxi_distribution(pair).reshape(-1)) > ALPHA


def test_more_trips_and_bits_begin_with_the_same() -> None:
    few, many = taxi(50, d=3, seed=9), taxi(80, d=20, seed=9)
    assert (few.codes == many.codes[:50, :3]).all()
    assert few != taxi(50, d=3, seed=10)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="0 trips"):
        taxi(0, seed=1)
    for d in (1, 25):
        with pytest.raises(ValueError, match=f"{d} bits"):
            taxi(5, d=d, seed=1)
    for names in ((), ("CC", "CC"), ("Tolls",)):
        with pytest.raises(ValueError, match="expected some of"):
            taxi_distribution(names)
    with pytest.raises(ValueError, match="2\\*\\*22"):
        taxi_distribution(taxi_survey(23).names)
    with pytest.raises(ValueError, match="expected two"):
        taxi_independent("CC", "CC")


# The real trips


def write(path: Path, *trips: dict[str, str]) -> Path:
    file = path / "trips.csv"
    lines = [", ".join(TRIP), ""]
    lines += [",".join({**TRIP, **trip}.values()) for trip in trips]
    file.write_text("\r\n".join(lines) + "\r\n")
    return file


@pytest.mark.parametrize(
    ("bit", "no", "yes"),
    [
        ("CC", {"payment_type": "DIS"}, {"payment_type": "CRD"}),
        ("Toll", {"tolls_amount": "0.00"}, {"tolls_amount": "5.33"}),
        ("Far", {"trip_distance": "9.99"}, {"trip_distance": "10"}),
        ("Night_pick", {}, {"pickup_datetime": "2013-01-14 20:00:00"}),
        (
            "Night_drop",
            {"dropoff_datetime": "2013-01-14 03:00:01"},
            {"dropoff_datetime": "2013-01-14 03:00:00"},
        ),
        ("M_pick", {"pickup_longitude": JFK[0], "pickup_latitude": JFK[1]}, {}),
        ("M_drop", {"dropoff_longitude": "-73.9500", "dropoff_latitude": "40.6500"}, {}),
        (
            "Tip",
            {"tip_amount": "3.99", "total_amount": "16"},
            {"tip_amount": "4", "total_amount": "16"},
        ),
    ],
)
def test_bits_of_trips(tmp_path: Path, bit: str, no: dict[str, str], yes: dict[str, str]) -> None:
    records = taxi_trips(write(tmp_path, {}, no, yes))
    assert records.survey == taxi_survey()
    usual = {"M_pick", "M_drop"}
    rows = records.to_rows()
    assert {name for name, value in rows[0].items() if value == "yes"} == usual
    assert {name for name, value in rows[1].items() if value == "yes"} == usual - {bit}
    assert {name for name, value in rows[2].items() if value == "yes"} == usual | {bit}


def test_places_in_and_around_manhattan(tmp_path: Path) -> None:
    inside = [(-73.9819, 40.7681), (-73.9442, 40.8116), (-73.9772, 40.7527), (-73.9213, 40.8665)]
    outside = [(-73.9496, 40.7610), (-74.0345, 40.7350), (-73.9969, 40.6960), (-73.9262, 40.8296)]
    trips = [
        {"pickup_longitude": str(x), "pickup_latitude": str(y)} for x, y in (*inside, *outside)
    ]
    found = taxi_trips(write(tmp_path, *trips)).codes[:, BITS.index("M_pick")]
    assert found.tolist() == [1] * 4 + [0] * 4


def test_trips_without_a_position_are_left_out(tmp_path: Path) -> None:
    lost = [
        {"pickup_longitude": "0", "pickup_latitude": "0"},
        {"dropoff_latitude": ""},
        {"dropoff_longitude": "-1800"},
    ]
    assert len(taxi_trips(write(tmp_path, *lost, {}))) == 1
    with pytest.raises(DatasetError, match="no trip with a position"):
        taxi_trips(write(tmp_path, *lost))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"pickup_datetime": "14/01/2013"}, "row 4, column 'pickup_datetime'"),
        ({"dropoff_datetime": "2013-02-30 00:00:00"}, "not a date and time"),
        ({"trip_distance": "far"}, "not a number of at least 0"),
        ({"tolls_amount": "-1"}, "column 'tolls_amount': '-1'"),
        ({"total_amount": "inf"}, "column 'total_amount'"),
        ({"pickup_latitude": "nan"}, "not a number of degrees"),
        ({"payment_type": "Cash"}, "none of CRD, CSH"),
        ({"payment_type": "CSH,1"}, "row 4 has 13 fields, expected 12"),
    ],
)
def test_lines_that_are_no_trips_are_refused(
    tmp_path: Path, wrong: dict[str, str], words: str
) -> None:
    with pytest.raises(DatasetError, match=words):
        taxi_trips(write(tmp_path, {}, wrong))


def test_files_that_are_no_table_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="cannot be read"):
        taxi_trips(tmp_path / "none.csv")
    file = tmp_path / "bad.csv"
    for text, words in (
        ("", "'pickup_datetime' is missing"),
        (",".join((*COLUMNS, "tip_amount")), "'tip_amount' is there twice"),
        (",".join(COLUMNS), "no trip"),
    ):
        file.write_text(text)
        with pytest.raises(DatasetError, match=words):
            taxi_trips(file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(DatasetError, match="not a table"):
        taxi_trips(file)
