"""Draws of the page have the exact laws of the program's randomizers."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from protocol import (
    FakeData,
    HadamardResponse,
    KeepElseTable,
    KeepUniform,
    LocalHashing,
    MatrixRandomizer,
    OneBitMean,
    PiecewiseMean,
    PrivKV,
    Randomizer,
    Records,
    SubsetSelection,
    UnaryEncoding,
    secret_of,
    split_codes,
)
from protocol.crypto.randomness import WORDS
from protocol.randomizers.marginals import MarginalReports
from protocol.variants import InpHT, InpPS, InpRR, MargHT, MargPS, MargRR
from tests.statistical import ALPHA, WRONG, chi_square_p_value
from tests.tiers import thinned
from tests.vectors.pages.making import begun
from tests.vectors.pages.settings import Case, survey_of
from tests.verifier.bundles import needs_node, run

pytestmark = needs_node

SCRIPT = Path(__file__).parent / "laws.js"
MANY, FEW = 10**6, 10**5

Law = Mapping[str, Fraction]
"""The probability of each report, as the page's test spells it."""


@dataclass(frozen=True)
class Drawn:
    """A draw and its law.

    Args:
        name: of the case.
        given: what the page makes it of.
        inputs: what is reported on.
        law: of the reports on an input.
    """

    name: str
    given: dict[str, Any]
    inputs: Sequence[Any]
    law: Callable[[Any], Law]


def numbered(randomizer: Randomizer) -> Drawn:
    """One whose reports are a few numbers."""
    return by_fields(
        randomizer,
        lambda code: {str(report): p for report, p in enumerate(randomizer.row(code))},
    )


def by_fields(randomizer: Any, law: Callable[[Any], Law], inputs: Any = None) -> Drawn:
    name = type(randomizer).__name__
    fields = [spelled(value) for value in msgspec.structs.astuple(randomizer)]
    inputs = range(randomizer.size) if inputs is None else inputs
    return Drawn(name, {"make": name, "fields": fields}, inputs, law)


def spelled(value: Any) -> Any:
    """Integers as text, which JSON does not round."""
    if isinstance(value, KeepUniform):
        return [str(value.size), str(value.threshold)]
    return [*map(spelled, value)] if isinstance(value, tuple) else str(value)


def of_sets(randomizer: SubsetSelection) -> Drawn:
    size, chosen, p = randomizer.size, randomizer.chosen, randomizer.p
    within, without = math.comb(size - 1, chosen - 1), math.comb(size - 1, chosen)

    def law(code: int) -> Law:
        return {
            str(sum(1 << each for each in held)): p / within if code in held else (1 - p) / without
            for held in itertools.combinations(range(size), chosen)
        }

    return by_fields(randomizer, law)


def of_places(randomizer: HadamardResponse) -> Drawn:
    def law(code: int) -> Law:
        odd = [((code + 1) & place).bit_count() % 2 for place in range(randomizer.places)]
        shares = [2 * (1 - randomizer.p if minus else randomizer.p) for minus in odd]
        return {str(place): share / len(odd) for place, share in enumerate(shares)}

    return by_fields(randomizer, law)


def of_hashes(randomizer: LocalHashing) -> Drawn:
    g, base = randomizer.groups, randomizer.base

    def law(code: int) -> Law:
        found = {}
        for function in range(randomizer.functions):
            rest, hashed = divmod(function, g)
            for place in range(randomizer.digits):
                rest, coefficient = divmod(rest, g)
                hashed += coefficient * (code // base**place % base)
            for value, p in enumerate(randomizer.keep.row(hashed % g)):
                found[str(value + g * function)] = p / randomizer.functions
        return found

    return by_fields(randomizer, law)


def of_fakes(randomizer: FakeData) -> Drawn:
    sizes, m = randomizer.sizes, len(randomizer.sizes)
    kept = [Fraction(m * threshold, WORDS) for threshold in randomizer.thresholds]
    records = [*itertools.product(*map(range, sizes))]

    def law(record: Sequence[int]) -> Law:
        return {
            ",".join(map(str, report)): sum(
                (1 - a + size * a * (x == y))
                for a, size, x, y in zip(kept, sizes, record, report, strict=True)
            )
            / Fraction(m * math.prod(sizes))
            for report in records
        }

    return by_fields(randomizer, law, inputs=records[:: len(records) // 3])


def of_keys(randomizer: PrivKV) -> Drawn:
    """Holdings of two keys; all values are exact in binary."""
    (p1, q1), (p2, q2) = (
        (Fraction(WORDS + one.threshold, 2 * WORDS), Fraction(WORDS - one.threshold, 2 * WORDS))
        for one in (randomizer.key_response, randomizer.value_response)
    )

    def law(values: Sequence[float | None]) -> Law:
        found = {}
        for key, value in enumerate(values):
            held = q1 if value is None else p1
            plus = (1 + Fraction(value or 0)) / 2
            upright = plus * p2 + (1 - plus) * q2
            shares = (1 - held, held * upright, held * (1 - upright))
            found.update(
                {f"{key},{symbol}": share / randomizer.keys for symbol, share in enumerate(shares)}
            )
        return found

    return by_fields(randomizer, law, inputs=[(None, 0.75), (-1.0, 1.0), (0.0, -0.25)])


def of_marginals(variant: Any) -> Drawn:
    """A marginal method, by the bodies of its answers."""
    survey, plan, codec = variant.survey, variant.plan, begun(Case("x", variant, 1)).charter.codec
    kind = type(variant).messages[1]
    reports = plan.randomizer

    def law(codes: Sequence[int]) -> Law:
        cells = variant.encoding.cells(Records(survey, np.array([codes])))
        found = {}
        for choice in range(plan.choices):
            choices = np.array([choice], np.uint8)
            [true] = plan.true_answers(cells, choices).tolist()
            for report, p in enumerate(reports.row(true)):
                drawn = np.array([report], np.uint8)
                answers = drawn[:, np.newaxis] if plan.one_hot else drawn
                bits = variant._packed(MarginalReports(choices, answers))
                body = codec.encode(kind(1, bits))
                found[body.hex()] = p / plan.choices
        return found

    terms = msgspec.msgpack.decode(begun(Case("x", variant, 1)).terms)[0]
    cells = math.prod(survey.sizes)
    inputs = split_codes(np.arange(0, cells, max(1, cells // 3)), survey.sizes).tolist()
    return Drawn(variant.name, {"terms": terms.hex()}, inputs, law)


BITS = survey_of(2, 2, 2)
MATRIX = [[0.5, 0.5, 0], [0, 0.75, 0.25], [0.25, 0, 0.75]]
CASES = (
    numbered(KeepUniform.with_epsilon(5, epsilon=1.0)),
    numbered(KeepUniform(3, 2**62)),
    numbered(KeepElseTable(threshold=2**62, weights=(2**63, 2**61, 2**62, 2**61))),
    numbered(MatrixRandomizer.from_probabilities(MATRIX)),
    numbered(UnaryEncoding.symmetrized(6, epsilon=1.0)),
    numbered(UnaryEncoding.optimized(5, epsilon=1.0)),
    of_hashes(LocalHashing.binary(7, epsilon=1.0)),
    of_hashes(LocalHashing.optimized(9, epsilon=0.7)),
    of_sets(SubsetSelection.with_epsilon(7, epsilon=0.8)),
    of_places(HadamardResponse.with_epsilon(6, epsilon=1.0)),
    of_fakes(FakeData.with_epsilon((2, 3, 4), epsilon=1.0)),
    numbered(OneBitMean.with_epsilon(5, epsilon=1.0)),
    numbered(PiecewiseMean.with_epsilon(5, epsilon=1.0, step=6)),
    of_keys(PrivKV.with_budget(2, epsilon=2.0)),
    *(
        of_marginals(cls(survey=BITS, epsilon=1.0, k=2))
        for cls in (InpRR, InpPS, InpHT, MargRR, MargPS, MargHT)
    ),
)


def p_values(case: Drawn, draws: int) -> tuple[float, float]:
    """Of the case's law, and of one that is wrong by a tenth of it."""
    given = {
        "seed": secret_of(7).hex(),
        "draws": draws,
        "cases": [{**case.given, "inputs": [*case.inputs]}],
    }
    [found] = json.loads(run(SCRIPT.read_text(encoding="utf-8"), json.dumps(given).encode()))
    right, wrong = [], []
    for value, counts in zip(case.inputs, found, strict=True):
        law = {report: p for report, p in case.law(value).items() if p}
        assert set(counts) <= set(law)
        observed = [counts.get(report, 0) for report in law]
        shares = np.array([float(p) for p in law.values()])
        mixed = shares / WRONG + (1 - 1 / WRONG) / len(shares)
        right.append((observed, shares))
        wrong.append((observed, mixed))
    first, second = (
        chi_square_p_value([counts for counts, _ in each], [shares for _, shares in each])
        for each in (right, wrong)
    )
    return first, second


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_reports_have_the_exact_law(case: Drawn) -> None:
    right, wrong = p_values(case, MANY)
    assert right > ALPHA
    assert wrong < ALPHA


@pytest.mark.parametrize("case", [*thinned(CASES[:14], 4), *thinned(CASES[14:], 1)])
def test_a_few_reports_have_the_law(case: Drawn) -> None:
    assert p_values(case, FEW)[0] > ALPHA
