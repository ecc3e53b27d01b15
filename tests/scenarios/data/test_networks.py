"""Bayesian networks: exact distributions, sampling, and where the files are found."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from protocol import Stream, SurveyError
from protocol.crypto.randomness import WORDS
from scenarios import DatasetError, alarm_network, child_network, survey_network
from scenarios.data.networks import Network, Variable
from scenarios.data.raw_files import PACKAGED, VARIABLE
from tests.raw_data import RAW, needs
from tests.scripted import Scripted, seeded
from tests.statistical import ALPHA, WRONG, chi_square_p_value

Loader = Callable[[Path | None], Network]

LOADERS: dict[str, Loader] = {
    "survey": survey_network,
    "alarm": alarm_network,
    "child": child_network,
}

HALVES = (Fraction(1, 2), Fraction(1, 2))

TINY = """[
{"name": "B", "categories": ["b0", "b1", "b2"], "parents": ["A"],
 "rows": [[0.5, 0.25, 0.25], [0, 0.125, 0.875]]},
{"name": "A", "categories": ["a0", "a1"], "parents": [], "rows": [[0.75, 0.25]]}
]"""

CIRCLE = TINY.replace('[], "rows": [', '["B"], "rows": [[1, 0], [1, 0], ')


def fractions(*decimals: str) -> tuple[Fraction, ...]:
    return tuple(map(Fraction, decimals))


CHILD, PARENT = TINY_VARIABLES = (
    Variable(
        name="B",
        categories=("b0", "b1", "b2"),
        parents=("A",),
        rows=(fractions("0.5", "0.25", "0.25"), fractions("0", "0.125", "0.875")),
    ),
    Variable(name="A", categories=("a0", "a1"), parents=(), rows=(fractions("0.75", "0.25"),)),
)


# Small networks against enumeration


@st.composite
def small(draw: st.DrawFn) -> Network:
    """Up to 5 variables of 2 or 3 categories, declared in any order, rows with zeros in them."""
    m = draw(st.integers(1, 5))
    sizes = draw(st.lists(st.integers(2, 3), min_size=m, max_size=m))
    variables = []
    for place in range(m):
        parents = draw(st.sets(st.integers(0, place - 1), max_size=3)) if place else set()
        listed = draw(st.permutations(sorted(parents)))
        rows = []
        for _ in range(math.prod(sizes[parent] for parent in listed)):
            weight = st.lists(st.integers(0, 9), min_size=sizes[place], max_size=sizes[place])
            row = draw(weight.filter(any))
            rows.append(tuple(Fraction(entry, sum(row)) for entry in row))
        variables.append(
            Variable(
                name=f"v{place}",
                categories=tuple(f"c{code}" for code in range(sizes[place])),
                parents=tuple(f"v{parent}" for parent in listed),
                rows=tuple(rows),
            )
        )
    return Network("small", tuple(draw(st.permutations(variables))))


def enumerated(network: Network, names: list[str]) -> NDArray[np.float64]:
    """The distribution of some variables by adding up every combination of all of them."""
    sizes = dict(zip(network.names, map(len, network.categories), strict=True))
    table = np.zeros([sizes[name] for name in names])
    for codes in itertools.product(*(range(size) for size in sizes.values())):
        code = dict(zip(sizes, codes, strict=True))
        probability = Fraction(1)
        for variable in network.variables:
            row = 0
            for parent in variable.parents:
                row = row * sizes[parent] + code[parent]
            probability *= variable.rows[row][code[variable.name]]
        table[tuple(code[name] for name in names)] += float(probability)
    return table


@given(small(), st.data())
@settings(deadline=None, max_examples=60)
def test_distribution_is_the_enumerated_one(network: Network, data: st.DataObject) -> None:
    names = data.draw(st.permutations(network.names))
    names = names[: data.draw(st.integers(0, len(names)))]
    table = network.distribution(names)
    np.testing.assert_allclose(table, enumerated(network, names), atol=1e-14)
    assert table.shape == tuple(network.survey.project(names).sizes if names else ())


@given(small())
@settings(deadline=None, max_examples=30)
def test_nobody_has_an_impossible_record(network: Network) -> None:
    records = network.sample(200, seeded(1))
    assert records.survey == network.survey
    joint = network.distribution(network.names)
    assert joint[tuple(records.codes.T)].min() > 0


class Shared(Scripted):
    """A scripted stream whose children are itself."""

    def derive(self, purpose: str) -> Stream:
        return self


def test_words_map_to_categories_by_exact_cumulative_thresholds() -> None:
    network = Network("tiny", TINY_VARIABLES)
    assert network.survey.names == ("B", "A")
    # A comes first: it is the parent. 0.75 of the words are a0.
    threes = 3 * WORDS // 4
    first = [0, threes - 1, 0, 0, threes, WORDS - 1, threes, threes]
    second = [0, WORDS // 2 - 1, WORDS // 2, WORDS - 1, 0, WORDS // 8 - 1, WORDS // 8, WORDS - 1]
    stream = Shared(*first, *second)
    records = network.sample(8, stream)
    assert stream.left == 0
    assert records.codes.tolist() == [
        [0, 0], [0, 0], [1, 0], [2, 0], [1, 1], [1, 1], [2, 1], [2, 1],
    ]  # fmt: skip


@pytest.mark.parametrize(
    "row", [(0, 1, 0), (1, 0, 0), (0, 0, 1), (0, "1/2", "1/2"), ("1/2", 0, "1/2")]
)
def test_a_category_of_probability_zero_is_never_drawn(row: tuple[str | int, ...]) -> None:
    law = tuple(map(Fraction, row))
    one = Variable(name="x", categories=("a", "b", "c"), parents=(), rows=(law,))
    words = (0, 1, WORDS // 2 - 1, WORDS // 2, WORDS - 2, WORDS - 1)
    drawn = Network("one", (one,)).sample(len(words), Shared(*words)).codes[:, 0].tolist()
    cumulated = list(itertools.accumulate(law))
    assert drawn == [sum(word >= WORDS * upto for upto in cumulated) for word in words]


def test_a_sample_depends_on_nothing_but_the_stream() -> None:
    network = Network("tiny", TINY_VARIABLES)
    records = network.sample(50, seeded(3))
    assert network.sample(80, seeded(3)).take(50) == records
    assert network.sample(50, seeded(4)) != records
    stream = seeded(3)
    stream.words(5)
    assert network.sample(50, stream) == records
    # Another variable leaves the draws of these alone.
    more = Variable(name="C", categories=("c", "d"), parents=(), rows=(HALVES,))
    wider = Network("wider", (more, *network.variables)).sample(50, seeded(3))
    np.testing.assert_array_equal(wider.codes[:, 1:], records.codes)
    with pytest.raises(ValueError, match="0 respondents"):
        network.sample(0, seeded())


def test_views_of_a_tiny_network() -> None:
    network = Network("tiny", TINY_VARIABLES)
    assert network.names == ("B", "A")
    assert network.categories == (("b0", "b1", "b2"), ("a0", "a1"))
    assert network.variables[1].rows == ((Fraction(3, 4), Fraction(1, 4)),)
    assert network.survey.title == "tiny"
    np.testing.assert_allclose(network.distribution(["B"]), [0.375, 0.21875, 0.40625])
    np.testing.assert_allclose(
        network.distribution(["A", "B"]), [[0.375, 0.1875, 0.1875], [0, 0.03125, 0.21875]]
    )
    assert network.distribution([]) == pytest.approx(1)
    with pytest.raises(SurveyError, match="named twice"):
        network.distribution(["A", "A"])
    with pytest.raises(SurveyError, match="no attribute"):
        network.distribution(["A", "C"])


def test_a_distribution_that_is_too_large_is_refused() -> None:
    coins = [
        Variable(name=f"v{k}", categories=("h", "t"), parents=(), rows=(HALVES,)) for k in range(30)
    ]
    network = Network("coins", tuple(coins))
    assert network.distribution(network.names[:10]).shape == (2,) * 10
    with pytest.raises(ValueError, match="more than 4194304"):
        network.distribution(network.names)
    chain = [coins[0]]
    for before, coin in itertools.pairwise(coins):
        chain.append(msgspec.structs.replace(coin, parents=(before.name,), rows=(HALVES,) * 2))
    ends = Network("chain", tuple(chain)).distribution(["v29", "v0"])
    np.testing.assert_allclose(ends, 0.25)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "A"}, "repeated"),
        ({"parents": ("C",)}, "no attribute 'C'"),
        ({"parents": ("B",)}, "cycle"),
        ({"parents": ("A", "A")}, "named twice"),
        ({"categories": ("b",)}, "fewer than 2 categories"),
        ({"categories": ("b", "b", "c")}, "repeated"),
        ({"categories": ("b", "\x01", "c")}, "unprintable"),
        ({"parents": ()}, "variable 'B': 2 rows, expected one for each combination"),
        ({"rows": CHILD.rows[:1]}, "variable 'B': 1 rows, expected one for each combination"),
        ({"rows": (HALVES, HALVES)}, "variable 'B', row 1: expected 3 probabilities"),
        ({"rows": (CHILD.rows[0], (Fraction(1, 3),) * 2 + (Fraction(1, 4),))}, "'B', row 2: exp"),
        ({"rows": ((Fraction(2), Fraction(-1), Fraction(0)),) * 2}, "'B', row 1: expected 3"),
    ],
)
def test_what_is_no_network_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Network("wrong", (msgspec.structs.replace(CHILD, **changes), PARENT))


def test_cycles_and_nothing_are_refused() -> None:
    ring = [
        Variable(name=a, categories=("h", "t"), parents=(b,), rows=(HALVES,) * 2)
        for a, b in ("xy", "yz", "zx")
    ]
    with pytest.raises(ValueError, match="cycle"):
        Network("ring", tuple(ring))
    with pytest.raises(ValueError, match="at least one attribute"):
        Network("none", ())


# The three networks


@pytest.mark.parametrize(
    ("name", "m", "categories"), [("survey", 6, 14), ("alarm", 37, 105), ("child", 20, 60)]
)
def test_the_packaged_network(name: str, m: int, categories: int) -> None:
    network = LOADERS[name](None)
    assert network.survey.title == name.capitalize()
    assert len(network.names) == m
    assert sum(network.survey.sizes) == categories


def with_wrong_entry(network: Network, place: int) -> Network:
    """The network with the largest probability of one variable without parents 10 % too small."""
    variable = network.variables[place]
    (row,) = variable.rows
    largest = row.index(max(row))
    less = max(row) * (1 - 1 / Fraction(str(WRONG)))
    others = [entry + less / (len(row) - 1) for entry in row]
    others[largest] = row[largest] - less
    wrong = list(network.variables)
    wrong[place] = msgspec.structs.replace(variable, rows=(tuple(others),))
    return Network(network.title, tuple(wrong))


@pytest.mark.parametrize("name", LOADERS)
def test_samples_follow_the_exact_distribution(name: str) -> None:
    network = LOADERS[name](None)
    n = 40_000
    records = network.sample(n, seeded(5))
    root = [v.parents for v in network.variables].index(())
    wrong = with_wrong_entry(network, root)
    first = [network.names[root]]
    assert chi_square_p_value(records.counts(first), wrong.distribution(first)) < ALPHA
    tables = [(name,) for name in network.names]
    tables += [(v.name, parent) for v in network.variables for parent in v.parents]
    judged = 0
    for names in tables:
        law = network.distribution(names)
        observed = records.counts(names)
        assert not observed[law == 0].any()
        # Cells that are too rare for the approximation count as one.
        rare = law * n < 20
        cells = np.append(observed[~rare], observed[rare].sum())
        expected = np.append(law[~rare], law[rare].sum())
        if expected[-1] * n < 20:
            cells, expected = cells[:-1], expected[:-1] / expected[:-1].sum()
        assert chi_square_p_value(cells, expected) > ALPHA, names
        judged += len(cells)
    assert judged > 5 * len(network.names)


# Where the files are found


def test_a_file_in_a_folder_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "alarm.json").write_text(TINY)
    network = alarm_network(tmp_path)
    assert network == Network("Alarm", TINY_VARIABLES)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert alarm_network(None) == network
    with pytest.raises(DatasetError, match=r"expected a file child\.json; without --data"):
        child_network(tmp_path)
    assert child_network(None).title == "Child"


def test_a_row_is_divided_by_its_exact_sum(tmp_path: Path) -> None:
    written = "0.3333333, 0.3333333, 0.3333333"
    (tmp_path / "child.json").write_text(TINY.replace("0.5, 0.25, 0.25", written))
    assert child_network(tmp_path).variables[0].rows[0] == (Fraction(1, 3),) * 3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0.75", "0.749998", "variable 'A', row 1: expected 2 probabilities with a sum of 1"),
        ("0.75, 0.25", "1.75, -0.75", r"expected a probability - at `\$\[1\].rows\[0\]\[0\]`"),
        ("0.75", '"0.75"', "expected a probability"),
        ("0.75", "1e999999999", "out of range"),
        ("0.75", "9" * 5000, "JSON is malformed|out of range|expected a probability"),
        ('"a1"', '"a0"', "'a0' is repeated"),
        ('"a1"', "1", "Expected `str`, got `int`"),
        ('"parents": []', '"parent": []', "unknown field `parent`"),
        (', "rows": [[0.75, 0.25]]', "", "missing required field `rows`"),
        (TINY, CIRCLE, "the parents form a cycle"),
        (TINY, "[]", "at least one attribute"),
        (TINY, TINY[:-1], "Input data was truncated"),
        (TINY, "[" * 100_000, "Expected `object`"),
        ("0.75", "[" * 100_000, "nested too deeply"),
        ("0.75", '{"a": 1}', "expected a probability"),
        (TINY, " " * (2**24 + 1), "more than 16777216 bytes"),
        (TINY, "network unknown { }", "JSON is malformed"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in TINY
    path = tmp_path / "child.json"
    path.write_text(TINY.replace(old, new))
    with pytest.raises(DatasetError, match=message) as caught:
        child_network(tmp_path)
    assert str(caught.value).startswith(f"{path} is not a network: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250 + len(str(path))


def of_bif(text: str) -> list[tuple[str, list[str], list[str], list[list[str]]]]:
    """Name, categories, parents and rows of each variable, in the layout of the public files."""
    categories = {
        name: listed.split(", ")
        for name, listed in re.findall(r"variable (\S+) \{\s*type discrete .*? \{ (.*?) \};", text)
    }
    tables = {}
    for head, body in re.findall(r"probability \( (.*?) \) \{(.*?)\n\}", text, re.DOTALL):
        name, *parents = re.split(" \\| |, ", head)
        rows = dict(re.findall(r"(?:\((.*?)\)|table) (.*?);", body))
        wanted = itertools.product(*(categories[parent] for parent in parents))
        tables[name] = parents, [rows.pop(", ".join(given)).split(", ") for given in wanted]
        assert not rows
    return [(name, listed, *tables[name]) for name, listed in categories.items()]


@needs(*(f"bnlearn/{name}.bif" for name in LOADERS))
@pytest.mark.parametrize("name", LOADERS)
def test_the_packaged_network_is_the_raw_one(name: str) -> None:
    raw = (RAW / "bnlearn" / f"{name}.bif").read_bytes()
    assert sha256(raw).hexdigest() in (PACKAGED / "README.md").read_text(encoding="utf-8")
    expected = []
    for of_raw in of_bif(raw.decode()):
        rows = [[Fraction(entry) for entry in row] for row in of_raw[3]]
        expected.append((*of_raw[:3], [[entry / sum(row) for entry in row] for row in rows]))
    assert expected == [
        (v.name, [*v.categories], [*v.parents], [[*row] for row in v.rows])
        for v in LOADERS[name](None).variables
    ]
