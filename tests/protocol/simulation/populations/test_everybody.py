"""Everybody of a list, asked by law: each once, and what is told of them is drawn anew."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import pytest

from protocol import (
    Attribute,
    CannotTabulateError,
    LocalProtocolError,
    Message,
    Records,
    Stage,
    Survey,
    Variant,
)
from protocol.session.tabulation import Totals
from protocol.simulation.populations import everybody
from protocol.simulation.populations.everybody import ask_everybody
from protocol.testing.cohorts import check_alike
from protocol.variants import RRClusters, RRIndependent
from tests.every_variant import BITS, examples
from tests.recorded.runs import answers

CERTAIN = 60.0
"""An epsilon at which hardly any answer is changed."""


class InTwo(RRIndependent, frozen=True):
    """Asks two groups of people, each once."""

    name = "in-two"

    def stages(self, people: int) -> Generator[Stage, Totals, Message]:
        one = super().stages(people)
        stage = next(one)
        first = yield Stage(stage.asked, people // 3, group=0, rest=people - people // 3)
        second = yield Stage(stage.asked, people - people // 3, group=1)
        try:
            one.send(first + second)
        except StopIteration as end:
            result: Message = end.value
            return result
        raise AssertionError


class Greedy(RRIndependent, frozen=True):
    """Asks more people than there are."""

    name = "greedy"

    def stages(self, people: int) -> Generator[Stage, Totals, Message]:
        yield Stage(self.question(), people + 1)
        raise AssertionError


@pytest.mark.parametrize("cls", [RRIndependent, InTwo])
def test_each_is_asked_once(cls: type[RRIndependent], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(everybody, "PART", 7)
    attribute = Attribute(name="number", categories=tuple(map(str, range(40))))
    survey = Survey("numbers", (attribute,))
    records = Records(survey, np.arange(40, dtype=np.uint8)[:, np.newaxis])
    variant = cls.with_epsilon(survey, CERTAIN)
    estimate = variant.estimate(ask_everybody(variant, records, seed=1))
    assert estimate.n == 40
    assert np.allclose(estimate.table("number").values, 1 / 40)


BY_LAW = {e.name: e for e in examples() if e.variant.untabulated == Variant.untabulated}


@pytest.mark.parametrize("name", ["rr-joint", "rrba", "privkvm", "spl oue"])
def test_a_seed_decides_all(name: str) -> None:
    example = BY_LAW[name]
    one, again, other = (
        ask_everybody(example.variant, example.records, seed=seed) for seed in (1, 1, 2)
    )
    check_alike(one, again)
    with pytest.raises(AssertionError, match="is not that of a live run"):
        check_alike(one, other)


def test_who_cannot_be_asked_so() -> None:
    records = answers(BITS, 5)
    clusters = RRClusters(survey=BITS, p=0.6, tv=4, td=0.1)
    with pytest.raises(CannotTabulateError, match="its parties check each other's clusters"):
        ask_everybody(clusters, records, seed=1)
    with pytest.raises(LocalProtocolError, match="variant 'greedy': asks 6 people of 5"):
        ask_everybody(Greedy.with_epsilon(BITS, 1.0), records, seed=1)
