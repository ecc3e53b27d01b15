"""Estimates and epsilons from files and ``docs/estimates-from-a-record.md``, as outsiders do."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest

from protocol.audit.audit import audit
from protocol.transcript.reader import Records
from protocol.variants import RRBA, RRIndependent
from tests.every_variant import BITS
from tests.protocol.wire.schema_reader import read_body
from tests.recorded.runs import Run, recorded
from tests.recorded.signed import SURVEY

WORDS = 2**64


class Read:
    """A file's header, and what was said, decoded by what the header says of it."""

    def __init__(self, content: bytes) -> None:
        header, *entries = (msgspec.msgpack.decode(record) for record in Records(content))
        self.parameters: dict[str, Any] = header["parameters"]
        self.sizes = [len(each["categories"]) for each in header["survey"]["attributes"]]
        self.roster = [name for name, _ in header["roster"]]
        self._kinds = {kind[0]: kind for kind in header["kinds"]}
        self._sent = [msgspec.msgpack.decode(e[2]) for e in entries if e[0] == "Sent"]

    def said(self, kind: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Sender, recipient and values of all bodies of a kind, arrays as they are."""
        for _, sender, recipient, _, name, body in self._sent:
            if name == kind:
                found = read_body(self._kinds[name], body)
                yield sender, recipient, {field: shaped(value) for field, value in found.items()}


def shaped(value: Any) -> Any:
    match value:
        case (shape, numbers) if isinstance(shape, tuple) and isinstance(numbers, tuple):
            return np.array(numbers).reshape(shape)
    return value


def independent(read: Read, *attributes: int) -> tuple[np.ndarray[Any, Any], float]:
    """The joint shares of some attributes, and epsilon."""
    *_, (_, _, closed) = (s for s in read.said("Closed") if s[2]["of"] == "Report")
    counted = {
        name
        for place, name in enumerate(read.roster)
        if closed["counted"][place // 8] >> place % 8 & 1
    }
    rows = np.vstack([s[2]["codes"] for s in read.said("Report") if s[0] in counted])
    sizes = [read.sizes[j] for j in attributes]
    table = np.zeros(sizes)
    for row in rows:
        table[tuple(row[list(attributes)])] += 1 / len(rows)
    epsilon = 0.0
    for j, randomizer in enumerate(read.parameters["randomizers"]):
        p, r = randomizer["threshold"] / WORDS, read.sizes[j]
        epsilon += math.log(1 + r * p / (1 - p))
        if j in attributes:
            axis = attributes.index(j)
            law = p * np.eye(r) + (1 - p) / r
            solved = np.linalg.solve(law.T, np.moveaxis(table, axis, 0).reshape(r, -1))
            rest = [size for i, size in enumerate(sizes) if i != axis]
            table = np.moveaxis(solved.reshape([r, *rest]), 0, axis)
    return table, epsilon


def blocks(read: Read) -> tuple[list[np.ndarray[Any, Any]], float]:
    """The shares of every pair of attributes, and epsilon."""
    pairs = list(itertools.combinations(read.sizes, 2))
    lengths = [a * b for a, b in pairs]
    starts = np.cumsum([0, *lengths])
    keeps = [keep(read.parameters, cells) for cells in lengths]
    tables: dict[int, dict[int, np.ndarray[Any, Any]]] = defaultdict(dict)
    asked: dict[str, dict[int, np.ndarray[Any, Any]]] = {}
    for _, party, question in read.said("Question"):
        groups = question["groups"].tolist()
        ends = np.cumsum([lengths[g] for g in groups]).tolist()
        parts = np.split(question["weights"].astype(float) / WORDS, ends[:-1]) if groups else []
        asked[party] = dict(zip(groups, parts, strict=True))
        tables[question["block"]] |= asked[party]
    kept, reports = np.zeros(starts[-1]), np.zeros(len(pairs))
    for _, _, block in read.said("Block"):
        for g, p in enumerate(keeps):
            cells = slice(starts[g], starts[g + 1])
            counts = block["counts"][cells]
            if n := counts.sum():
                kept[cells] += (counts - n * (1 - p) * tables[block["round"]][g]) / p
                reports[g] += n
    shares = [
        kept[starts[g] : starts[g + 1]] / reports[g]
        if reports[g]
        else np.full(lengths[g], 1 / lengths[g])
        for g in range(len(pairs))
    ]
    spent: dict[tuple[str, int], float] = defaultdict(float)
    for party, _, answers in read.said("Answers"):
        for respondent, g in zip(answers["respondents"], answers["groups"], strict=True):
            p, least = keeps[g], asked[party][g].min()
            spent[party, respondent] += math.log1p(p / ((1 - p) * least))
    return [s.reshape(pair) for s, pair in zip(shares, pairs, strict=True)], max(spent.values())


def keep(parameters: dict[str, Any], cells: int) -> float:
    if parameters["p"] is not None:
        return float(parameters["p"])
    least = math.floor(parameters["mix"] / cells * 2**53) / 2**53
    odds = math.expm1(parameters["epsilon"]) * least
    return odds / (1 + odds)


def judged(run: Run) -> tuple[Any, float]:
    """What the program says of the same record."""
    found = audit(lambda: (run.content,), type(run.charter.variant))
    assert found.verdict == "sound"
    return found.estimate, found.ledger.record_epsilon


def test_randomized_response_is_recomputed() -> None:
    run = recorded(RRIndependent.with_keep(SURVEY, 0.6), 60, parties=20, signed=True)
    estimate, epsilon = judged(run)
    read = Read(run.content)
    names = SURVEY.names
    for k in (1, 2):
        for attributes in itertools.permutations(range(len(names)), k):
            table, found = independent(read, *attributes)
            same = estimate.table(*(names[j] for j in attributes)).values
            assert table == pytest.approx(same, rel=1e-12, abs=1e-12)
            assert found == pytest.approx(epsilon, rel=1e-12)


@pytest.mark.parametrize(
    "terms",
    [
        {"epsilon": 1.0, "mix": 0.4},
        {"epsilon": 0.7, "groups": "view"},
        {"p": 0.5, "mix": 0.3, "groups": "view"},
        {"p": 0.4, "mix": 0.2, "block": 5},
    ],
)
def test_block_aggregation_is_recomputed(terms: dict[str, Any]) -> None:
    run = recorded(RRBA(survey=BITS, **{"block": 4, **terms}), 60, parties=20, signed=True)
    estimate, epsilon = judged(run)
    shares, found = blocks(Read(run.content))
    pairs = itertools.combinations(BITS.names, 2)
    for pair, table in zip(pairs, shares, strict=True):
        same = estimate.table(*pair).values
        assert table == pytest.approx(same, rel=1e-12, abs=1e-12)
    assert found == pytest.approx(epsilon, rel=1e-12)
