"""Strangers' files, each with a randomizer by its law and a variant, go the whole way; liars don't.

The files are written from ``docs/writing-a-randomizer.md`` and ``docs/writing-a-variant.md`` alone.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

from protocol import Records
from protocol.testing import check_randomizer, check_variant
from scenarios import EXECUTORS, Context, find_scenario, find_variant
from tests.pages import Page
from tests.scenarios.command import complaint, sottovoce

HEAD = '''
"""A stranger's protocol."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from protocol import Array, ArraySpec, Attribute, FrequencyOracle, OutputClass, Randomizer
from protocol import Records, Stream, Survey
from scenarios import Context, Positive, Scenario

'''

TAIL = '''

ANIMALS = Survey("Pets", (Attribute(name="pet", categories=tuple("abcdef")),))


def people(context: Context, people: Positive = 24) -> Records:
    """Some people.

    Args:
        people: how many are asked.
    """
    codes = (np.arange(people) % 5).astype("u1")[:, np.newaxis]
    return Records(ANIMALS, codes)


SCENARIOS = (
    Scenario.of(Own, name="own", summary="A stranger's protocol.", records=people, parties=4),
)
'''

OUE = '''
class Bits(Randomizer, frozen=True):
    """One bit per category: that of the answer is 1 with 1/2, every other with 1/4."""

    symmetric = True

    size: int

    @property
    def report(self) -> ArraySpec:
        return ArraySpec(dtype="u1", shape=(self.size,), high=2)

    def randomize(self, codes: Array, stream: Stream) -> Array:
        bits = stream.bernoulli(2**62, (len(codes), self.size))
        bits[np.arange(len(codes)), codes] = stream.bernoulli(2**63, len(codes))
        return bits.astype(np.uint8)

    def law(self, first: int, second: int) -> tuple[OutputClass, ...]:
        p, q = Fraction(1, 2), Fraction(1, 4)
        return (
            OutputClass((1 - p) * (1 - q), (1 - p) * (1 - q), (False, False)),
            OutputClass(p * (1 - q), q * (1 - p), (True, False)),
            OutputClass(q * (1 - p), p * (1 - q), (False, True)),
            OutputClass(p * q, p * q, (True, True)),
        )

    def classify(self, reports: Array, first: int, second: int) -> Array:
        return reports[:, first] + 2 * reports[:, second]


DRAWN = Bits(6)


class Own(FrequencyOracle, frozen=True):
    """Optimised unary encoding at ln 3."""

    name = "own-oue"

    @property
    def randomizer(self) -> Bits:
        return Bits(self.survey.cells)
'''

SUBSETS = '''
class Subset(Randomizer, frozen=True):
    """A set of d categories: with 3/5 it has the answer, the others are drawn uniformly."""

    symmetric = True

    size: int
    d: int
    threshold: int  # the answer is in the set with threshold / 2**64

    @property
    def report(self) -> ArraySpec:
        return ArraySpec(dtype="u1", shape=(self.size,), high=2)

    def randomize(self, codes: Array, stream: Stream) -> Array:
        k, rest = len(codes), self.size - 1
        own = stream.bernoulli(self.threshold, k)
        order = np.tile(np.arange(rest), (k, 1))
        rows = np.arange(k)
        for place in range(self.d):
            other = place + stream.integers(rest - place, k).astype(np.int64)
            order[rows, place], order[rows, other] = order[rows, other], order[rows, place]
        bits = np.zeros((k, self.size), np.uint8)
        for place in range(self.d):
            chosen = order[:, place] + (order[:, place] >= codes)
            bits[rows, chosen] = 1 if place < self.d - 1 else ~own
        bits[rows, codes] = own
        return bits

    def law(self, first: int, second: int) -> tuple[OutputClass, ...]:
        p = Fraction(self.threshold, 2**64)
        inside, outside = Fraction(self.d - 1, self.size - 1), Fraction(self.d, self.size - 1)
        neither, both = (1 - p) * (1 - outside), p * inside
        one, other = p * (1 - inside), (1 - p) * outside
        return (
            OutputClass(neither, neither, (False, False)),
            OutputClass(one, other, (True, False)),
            OutputClass(other, one, (False, True)),
            OutputClass(both, both, (True, True)),
        )

    def classify(self, reports: Array, first: int, second: int) -> Array:
        return reports[:, first] + 2 * reports[:, second]


DRAWN = Subset(6, 2, 3 * 2**64 // 5)


class Own(FrequencyOracle, frozen=True):
    """Subset selection."""

    name = "own-subsets"

    threshold: int = 3 * 2**64 // 5

    @property
    def randomizer(self) -> Subset:
        return Subset(self.survey.cells, 2, self.threshold)
'''

HASHES = '''
class Hashed(Randomizer, frozen=True):
    """A linear map of the answer's bits to one bit, drawn uniformly, and that bit with 3/4."""

    symmetric = True

    size: int

    @property
    def maps(self) -> int:
        return 2 ** (self.size - 1).bit_length()

    @property
    def report(self) -> ArraySpec:
        return ArraySpec(dtype="u1", shape=(2,), high=(self.maps, 2))

    def bit(self, maps: Array, codes: Array) -> Array:
        return np.bitwise_count(maps & codes) % 2

    def randomize(self, codes: Array, stream: Stream) -> Array:
        maps = stream.integers(self.maps, len(codes)).astype(np.uint8)
        flipped = stream.bernoulli(2**62, len(codes))
        bits = self.bit(maps, codes.astype(np.uint8)) ^ flipped
        return np.stack([maps, bits], axis=1).astype(np.uint8)

    def law(self, first: int, second: int) -> tuple[OutputClass, ...]:
        # Two different inputs have the same bit under half of the maps.
        kept, flipped = Fraction(3, 8), Fraction(1, 8)
        return (
            OutputClass(flipped, flipped, (False, False)),
            OutputClass(kept, flipped, (True, False)),
            OutputClass(flipped, kept, (False, True)),
            OutputClass(kept, kept, (True, True)),
        )

    def classify(self, reports: Array, first: int, second: int) -> Array:
        maps, bits = reports[:, 0], reports[:, 1]
        one, two = (self.bit(maps, np.uint8(code)) == bits for code in (first, second))
        return one + 2 * two


DRAWN = Hashed(6)


class Own(FrequencyOracle, frozen=True):
    """Binary local hashing at ln 3."""

    name = "own-hashing"

    @property
    def randomizer(self) -> Hashed:
        return Hashed(self.survey.cells)
'''

UNDERSTATED = '''

class Liar(Bits, frozen=True):
    """Says half of what it costs."""

    @property
    def epsilon(self) -> float:
        return super().epsilon / 2


class Own(Own, frozen=True):
    """Its randomizer understates its epsilon."""

    @property
    def randomizer(self) -> Liar:
        return Liar(self.survey.cells)


DRAWN = Liar(6)
'''

WEAKENED = '''
from protocol.randomizers.pairs import Dominating, ThreePoint


class Liar(Bits, frozen=True):
    """Its dominating pair has the right epsilon and half of the distance."""

    @property
    def dominating(self) -> Dominating:
        [pair] = super().dominating.pairs
        return Dominating((ThreePoint(pair.ratio, pair.distance / 2),), True)


class Own(Own, frozen=True):
    """The pair of its randomizer does not dominate it."""

    @property
    def randomizer(self) -> Liar:
        return Liar(self.survey.cells)


DRAWN = Liar(6)
'''

SURVEY = 'title = "Pets"\n[[attributes]]\nname = "pet"\ncategories = ["a","b","c","d","e","f"]\n'
HALVED = "randomizer 'Liar' states epsilon 0.549306144, and its law has 1.09861229"
BELOW = "randomizer 'Liar' has a dominating pair that does not dominate its law of inputs 0 and 1"


def written(folder: Path, name: str, *parts: str) -> Path:
    path = folder / f"{name}.py"
    path.write_text("".join((HEAD.lstrip(), *parts, TAIL)), encoding="utf-8")
    return path


@pytest.fixture(scope="module", params=[("oue", OUE), ("subsets", SUBSETS), ("hashes", HASHES)])
def own(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    name, source = request.param
    return written(tmp_path_factory.mktemp(name), name, source)


@pytest.fixture(scope="module")
def understated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("liar"), "understated", OUE, UNDERSTATED)


@pytest.fixture(scope="module")
def weakened(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("liar"), "weakened", OUE, WEAKENED)


def variant_class(path: Path) -> tuple[Any, Records]:
    """The variant of a file and the records of eight people."""
    scenario = find_scenario(str(path))
    parameters = scenario.configure({"people": "8"})
    ran = scenario.run(parameters, Context(transport="local")).outcome
    assert ran.records is not None
    return ran.variant, ran.records


@pytest.mark.slow
def test_contract_and_law(own: Path) -> None:
    variant, records = variant_class(own)
    check_variant(variant, records, executors=EXECUTORS, parties=4)
    assert len(EXECUTORS) == 4
    assert variant.randomizer.epsilon == pytest.approx(math.log(3), rel=1e-12)
    check_randomizer(variant.randomizer, without=("covariance",))


def test_the_command_line_runs_and_audits_it(own: Path, tmp_path: Path) -> None:
    digests = set()
    for transport in EXECUTORS:
        out = tmp_path / transport
        ran = sottovoce("run", own, "--transport", transport, "--out", out, "--json").json
        digests.add(ran["transcript"]["digest"])
    [digest] = digests
    audit = "audit", out / "transcript.svt.zst", "--variant", f"{own}:Own"
    found = sottovoce(*audit, "--json").json
    assert (found["verdict"], found["verification"]["digest"]) == ("sound", digest)
    privacy = found["privacy"]
    assert privacy["record_epsilon"] == pytest.approx(math.log(3), rel=1e-12)
    assert 0 < privacy["at_delta"]["exact"]["epsilon"] <= privacy["record_epsilon"] + 1e-9
    page = tmp_path / "page.html"
    options = "--observer", "aggregator,party-1", "--worst", "1", "--pld", "--trail", "party-2"
    said = sottovoce(*audit, "--html", page, *options)
    assert said.code == 0, said.err
    assert "\nRecord: sound. " in said.out
    assert "learned at most ε = 1.099 about each respondent (pure" in said.out
    assert "not computed" not in said.out
    assert "at most ε = 1.099 about each respondent" in Page(page.read_text(encoding="utf-8")).said


def test_the_command_line_attacks_it(own: Path, tmp_path: Path) -> None:
    drawn = sottovoce("attack", f"{own}:DRAWN", "--trials", "100000", "--json").json
    assert (drawn["accused"], drawn["claims"]) == (False, pytest.approx(math.log(3), rel=1e-12))
    assert drawn["probe"]["lower"] > 0.9
    survey = tmp_path / "pets.toml"
    survey.write_text(SURVEY, encoding="utf-8")
    few = "--survey", survey, "--trials", "4000", "--runs", "4", "--json"
    found = sottovoce("attack", f"{own}:Own", *few).json
    assert (found["accused"], len(found["probes"])) == (False, 1)
    assert found["probes"][0]["lower"] > 0.5


def test_who_understates_its_epsilon_is_refused(understated: Path, tmp_path: Path) -> None:
    ran = sottovoce("run", understated, "--out", tmp_path / "out")
    assert ran.code == 1
    assert "0 of 4 sent 'Draws', at least 2 needed; missing: party-1" in ran.err
    assert HALVED in ran.err
    drawn = sottovoce("attack", f"{understated}:DRAWN", "--trials", "1000")
    assert (drawn.code, drawn.err) == (2, f"sottovoce: {HALVED}\n")
    survey = tmp_path / "pets.toml"
    survey.write_text(SURVEY, encoding="utf-8")
    attacked = sottovoce("attack", f"{understated}:Own", "--survey", survey, "--trials", "100")
    assert attacked.code == 1
    assert HALVED in attacked.err
    honest = written(tmp_path, "honest", OUE)
    variant, records = variant_class(honest)
    with pytest.raises(AssertionError, match=f"the variant does not run: .*{re.escape(HALVED)}"):
        check_variant(
            find_variant(f"{understated}:Own")(survey=variant.survey), records, executors=EXECUTORS
        )


def test_an_audit_by_who_understates_is_refused(understated: Path, tmp_path: Path) -> None:
    """The transcript is of the honest file; nothing goes by what the liar states."""
    honest = written(tmp_path, "honest", OUE)
    assert sottovoce("run", honest, "--out", tmp_path / "out").code == 0
    audit = "audit", tmp_path / "out" / "transcript.svt.zst", "--variant", f"{understated}:Own"
    for options in ((), ("--json",)):
        said = sottovoce(*audit, *options)
        assert "the variant is not the one that was agreed" in complaint(said, 1)
        assert said.out == ""


def test_a_pair_that_does_not_dominate_is_refused(weakened: Path, tmp_path: Path) -> None:
    drawn = sottovoce("attack", f"{weakened}:DRAWN", "--trials", "1000")
    assert (drawn.code, drawn.err) == (2, f"sottovoce: {BELOW}\n")
    assert sottovoce("run", weakened, "--out", tmp_path / "out").code == 0
    page = tmp_path / "page.html"
    audit = "audit", tmp_path / "out" / "transcript.svt.zst", "--variant", f"{weakened}:Own"
    said = sottovoce(*audit, "--html", page, "--details")
    assert said.code == 0, said.err
    assert f"At delta 1e-06: not computed: {BELOW}" in said.out
    assert "learned at most ε = 1.099 about each respondent (pure" in said.out
    assert BELOW in Page(page.read_text(encoding="utf-8")).said
    at_delta = sottovoce(*audit, "--json").json["privacy"]["at_delta"]
    assert at_delta["exact"] is None
    assert BELOW in at_delta["missing"]
    variant, records = variant_class(weakened)
    with pytest.raises(AssertionError, match=f"the ledger: {re.escape(BELOW)}"):
        check_variant(variant, records, executors=EXECUTORS, parties=4)
