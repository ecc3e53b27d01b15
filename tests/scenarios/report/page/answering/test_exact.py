"""The page comes to the same thresholds and epsilons as the program, to the last digit."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

from protocol import (
    FakeData,
    KeepUniform,
    LocalHashing,
    OneBitMean,
    PiecewiseMean,
    PrivKV,
    ProtocolError,
    SubsetSelection,
    UnaryEncoding,
)
from protocol.randomizers.exact import log_ratio
from protocol.variants.oracles.names import ORACLES, frequency_oracle
from tests.verifier.bundles import needs_node, run

pytestmark = needs_node

SCRIPT = Path(__file__).parent / "exact.js"
NAMES = (*ORACLES, "one-bit", "piecewise", "rs-fd", "privkv", "keep")
SIZES = (2, 3, 5, 8, 9, 17, 100, 257, 1000, 4096, 65536)
EDGES = (1e-300, 1e-20, 5e-20, 1e-19, 1.7e-19, 1e-18, 1e-10, 1e-3, 40.0, 44.4, 45.0, 88.0)
LARGE = (100.0, 138.2, 150.0, 199.99, 200.0, 201.0, 1e6, 1e308)


def cases() -> list[tuple[str, int, float]]:
    """Names, sizes, and epsilons from the smallest to the largest; of ``keep``, probabilities."""
    draw = random.Random(1)
    found = []
    for name in NAMES:
        numbers = [*EDGES, *LARGE, *(math.exp(draw.uniform(-6, 3)) for _ in range(60))]
        if name == "keep":
            numbers = [1e-25, 2.0**-65, 3 * 2.0**-65, 2.0**-64, 1e-9, 1 - 2.0**-53]
            numbers += [draw.random() for _ in range(60)]
            numbers += [draw.random() * 2.0**-50 for _ in range(20)]
        found += [(name, draw.choice(SIZES), number) for number in numbers]
    return found


def fields(name: str, size: int, number: float) -> Any:
    """Integers and epsilon by the program; "unfit" where it refuses."""
    try:
        one: Any
        match name:
            case "keep":
                one = KeepUniform.with_keep(size, p=number)
                return [[one.threshold], one.epsilon]
            case "rs-fd":
                one = FakeData.with_epsilon((size, 2, 7), epsilon=number)
                return [[*one.thresholds], one.epsilon]
            case "privkv":
                one = PrivKV.with_budget(size, epsilon=number)
                return [[one.key_response.threshold], one.epsilon]
            case "one-bit":
                one = OneBitMean.with_epsilon(size, epsilon=number)
            case "piecewise":
                one = PiecewiseMean.with_epsilon(size, epsilon=number)
            case _:
                one = frequency_oracle(name, size, epsilon=number)  # type: ignore[arg-type]
    except (ValueError, ProtocolError):
        return "unfit"
    match one:
        case UnaryEncoding():
            own = [one.hit, one.other]
        case LocalHashing():
            own = [one.groups, one.threshold]
        case SubsetSelection():
            own = [one.chosen, one.threshold]
        case OneBitMean():
            own = [one.step]
        case PiecewiseMean():
            own = [one.step, one.window, one.threshold]
        case _:
            own = [one.threshold]
    return [own, one.epsilon]


def ratios() -> list[tuple[int, int]]:
    draw = random.Random(2)
    found = [(1, 1), (2**64, 2**64 - 1), (2**130, 3), (2**64 + 1, 2**64)]
    for _ in range(300):
        low = draw.randint(2**70, 2 ** draw.randint(71, 200))
        found.append((low + (low >> draw.randint(0, 66)) + draw.randint(0, 9), low))
        found.append((low * draw.randint(2, 2 ** draw.randint(2, 128)), low + 1))
    # No epsilon of words is below 2**-65, and there 60 decimal digits are enough.
    found = [(max(ratio), min(ratio)) for ratio in found]
    return found


def sums() -> list[list[float]]:
    draw = random.Random(3)
    return [
        [math.exp(draw.uniform(-30, 6)) for _ in range(draw.randint(1, 12))] for _ in range(300)
    ] + [[0.1] * 10, [1.0, 2.0**-53], [1.0, 2.0**-53, 2.0**-80], [1e-19]]


def test_thresholds_and_epsilons_are_the_programs() -> None:
    given = {
        "made": cases(),
        "ratios": [[str(one), str(other)] for one, other in ratios()],
        "sums": sums(),
    }
    said = json.loads(run(SCRIPT.read_text(encoding="utf-8"), json.dumps(given).encode()))
    for case, found in zip(cases(), said["made"], strict=True):
        wanted = fields(*case)
        if wanted != "unfit":
            wanted = [[str(number) for number in wanted[0]], wanted[1]]
        assert found == wanted, case
    unfit = sum(found == "unfit" for found in said["made"])
    assert 20 < unfit < len(cases()) / 3
    assert said["logs"] == [log_ratio(*ratio) for ratio in ratios()]
    assert said["sums"] == [math.fsum(numbers) for numbers in sums()]
    assert said["before"] == [math.nextafter(n, 0.0) for numbers in sums() for n in numbers]
