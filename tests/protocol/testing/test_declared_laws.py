"""Every law that a message declares is found in it: by its arrays, or by ``Variant.drawn``."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from protocol import (
    AGGREGATOR,
    Array,
    ArraySpec,
    Attribute,
    Bounds,
    Drawn,
    Draws,
    FrequencyOracle,
    KeepUniform,
    Kind,
    Me,
    Message,
    PrivacyEvent,
    Randomized,
    Randomizer,
    Records,
    Request,
    Seen,
    Stream,
    Survey,
    Variant,
)
from protocol.accounting.events import single_events
from protocol.attack.declared import drawn_in, log_ratios
from protocol.randomizers.keyvalue import ABSENT, MINUS, PLUS
from protocol.randomizers.marginals import MarginalReports
from protocol.sharing.messages import Partial, Totals, Upload
from protocol.simulation.rehearsal import Rehearsal
from protocol.simulation.setting import make_setting
from protocol.testing import check_variant
from protocol.testing.likelihoods import check_frequencies, check_ledger
from protocol.variants import (
    RRBA,
    InpHT,
    InpPS,
    InpRR,
    MargHT,
    MargPS,
    MargRR,
    PairRR,
    PrivKVMVariant,
    PrivKVVariant,
    RRClusters,
    Smp,
)
from protocol.variants.clusters import rr_clusters
from protocol.variants.keyvalue.privkv import Fakes, KeyReport, KeyValueCollection
from protocol.variants.marginals.variant import Bits, MarginalRelease
from protocol.variants.oracles.attributes import SampledReports
from protocol.variants.reports.oracle import Tallied
from protocol.variants.rrba.rrba import Answers, Question
from protocol.variants.sums.tallies import Counted as Tables
from protocol.variants.sums.tallies import Layout
from tests.every_variant import BITS, FILMS, LITERAL, SPARSE, Example, examples
from tests.protocol.sessions import SURVEY, answers
from tests.tiers import slow, thinned

MASKED = (Upload, Partial)
LAWLESS = ("PrivKV", "PrivKVM")


def is_drawn(event: PrivacyEvent) -> bool:
    parts = single_events(event)
    names = [type(p.randomizer).__name__ for p in parts if isinstance(p, Randomized)]
    return bool(names) and not set(names) & set(LAWLESS)


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_every_law_of_the_projects_own_variants_is_found(example: Example) -> None:
    run = Rehearsal(make_setting(example.variant, example.records, seed=1, parties=6))
    variant = run.charter.variant
    for slot, event in run.events.items():
        message = run.message(run.sent[slot])
        if is_drawn(event) and not isinstance(message, MASKED):
            found = drawn_in(message, event, variant, example.records)
            assert found is not None, message.kind()
            assert {part.event for part, _ in found} == set(single_events(event))
            said = {row for part, _ in found for row in part.respondents.tolist()}
            everybody = set(range(len(run.setting.holdings[slot[0]])))
            if isinstance(message, KeyReport):  # A report that a key is absent has no sign.
                everybody = set(np.flatnonzero(message.symbols != ABSENT).tolist())
            assert said == everybody


def test_bits_are_held_against_the_input_that_they_are_of() -> None:
    """A coefficient's input is a sum of bits, and an attribute of three categories has two."""
    survey = Survey(
        "three",
        (
            Attribute(name="a", categories=("no", "yes")),
            Attribute(name="b", categories=("x", "y", "z")),
        ),
    )
    variant = InpHT(survey=survey, epsilon=1.0, max_records=40)
    records = answers(survey, 40)
    report = variant.answer(records, Request(survey.digest), Stream(bytes(32)))
    read = variant.read(report)
    assert read is not None
    event = variant.report_reveals(read, Seen())
    codes = np.array([0, 1]), np.array([1, 2])
    first, second = variant.encoding.cells(Records(survey, np.stack(codes)))
    keep = variant.plan.randomizer
    expected = [
        keep.log_ratios(np.array([said]), *inputs)[0] if inputs[0] != inputs[1] else 0.0
        for choice, said in zip(read.choices, read.answers, strict=True)
        for inputs in [
            [int(cell & variant.plan.masks[choice]).bit_count() % 2 for cell in (first, second)]
        ]
    ]
    ratios = log_ratios(report, event, variant, codes)
    assert ratios is not None
    assert ratios.tolist() == expected
    assert {-1, 0, 1} == set(np.sign(expected))


# Cheats: the true answer in the form of a report.


def marginal_cheat(base: type[MarginalRelease]) -> MarginalRelease:
    class Cheat(base, frozen=True):  # type: ignore[valid-type, misc]
        def answer(self, records: Records, question: Request, stream: Stream) -> Bits:
            cells = self.encoding.cells(records)
            choices = self.plan.choose(len(cells), stream)
            true = self.plan.true_answers(cells, choices)
            if self.plan.one_hot:
                true = one_hot(true, self.plan.cells)
            return Bits(len(records), self._packed(MarginalReports(choices, true)))

    made: MarginalRelease = Cheat(survey=BITS, epsilon=1.0)
    return made


def one_hot(codes: NDArray[Any], size: int) -> NDArray[np.uint8]:
    return np.packbits(np.eye(size, dtype=np.uint8)[codes], axis=1, bitorder="little")


class SampledCheat(Smp, frozen=True, kw_only=True):
    def answer(self, records: Records, question: Request, stream: Stream) -> SampledReports:
        sampled = stream.integers(self.attributes, len(records)).astype(np.uint8)
        true = records.codes[np.arange(len(records)), sampled][:, np.newaxis]
        return SampledReports(sampled, true if self.oracle == "grr" else one_hot(true[:, 0], 2))


def key_cheat(base: type[KeyValueCollection]) -> KeyValueCollection:
    class Cheat(base, frozen=True):  # type: ignore[valid-type, misc]
        async def party(self, me: Me, records: Records) -> None:
            request = await me.receive(Request, AGGREGATOR)
            keys = self.client.each.sampled(len(records), me.stream_for(request))
            held = self.values[keys, records.codes[np.arange(len(records)), keys]]
            signs = np.where(held > 0, PLUS, MINUS)
            symbols = np.where(np.isnan(held), ABSENT, signs).astype(np.uint8)
            for round_ in range(self.repeats):
                if round_:
                    await me.receive(Fakes, AGGREGATOR, round=round_)
                await me.send(AGGREGATOR, KeyReport(round_, keys, symbols))

    made: KeyValueCollection = Cheat(survey=FILMS, epsilon=2.0)
    return made


class GroupCheat(RRBA, frozen=True, kw_only=True):
    async def party(self, me: Me, records: Records) -> None:
        question = await me.receive(Question, AGGREGATOR)
        if question.over:
            return
        lots = self.plan.lots(me.session, me.id, len(records))
        rows, groups = self.plan.chosen(lots, me.stream_for(question, "groups"))
        cells = self.plan.layout.cells_at(records, rows, groups)
        said = Answers(
            rows.astype("<u4"), groups.astype(self._group_dtype), cells.astype(self._code_dtype)
        )
        await me.send(AGGREGATOR, said)


class PairCheat(PairRR, frozen=True, kw_only=True):
    vector = Tables.vector


CHEATS = {
    "privkv": key_cheat(PrivKVVariant),
    "privkvm": key_cheat(PrivKVMVariant),
    "smp grr": SampledCheat(survey=BITS, epsilon=1.0),
    "smp sue": SampledCheat(survey=BITS, epsilon=1.0, oracle="sue"),
    "smp oue": SampledCheat(survey=BITS, epsilon=1.0, oracle="oue"),
    "rrba": GroupCheat(survey=BITS, epsilon=1.0, block=4),
    "rrba view": GroupCheat(survey=BITS, p=0.5, mix=0.3, block=2, groups="view"),
    **{base.name: marginal_cheat(base) for base in (InpRR, InpPS, InpHT, MargRR, MargPS, MargHT)},
}


@pytest.mark.parametrize("cheat", thinned(CHEATS, 4))
def test_who_sends_the_true_answer_is_refused(cheat: str) -> None:
    variant = CHEATS[cheat]
    with pytest.raises(AssertionError, match=r"4,000 reports in .* tell at least epsilon [345]\."):
        check_variant(variant, answers(variant.survey, 6), executors={})


@pytest.mark.parametrize(
    ("variant", "parties"),
    [
        (PairCheat.with_keep(BITS, 0.03, sums=LITERAL), 3),
        slow(PairCheat.with_keep(BITS, 0.03, sums=SPARSE), 6),
        slow(RRClusters(survey=BITS, p=0.02, tv=4, td=0.1, dependence="pair-rr", sums=LITERAL), 3),
        slow(RRClusters(survey=BITS, p=0.02, tv=4, td=0.1, dependence="pair-rr", sums=SPARSE), 6),
    ],
    ids=["pairs literal", "pairs sparse", "clusters literal", "clusters sparse"],
)
def test_who_adds_the_true_answer_to_a_sum_is_refused(
    variant: PairRR | RRClusters, parties: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def counted(layout: Layout, _: object, records: Records, *__: object) -> NDArray[np.uint32]:
        return layout.counted(layout.table_cells(records))

    monkeypatch.setattr(rr_clusters, "randomized_pairs", counted)
    with pytest.raises(AssertionError, match=r"100 runs tell at least epsilon 0\.6"):
        check_variant(variant, answers(BITS, parties), executors={}, rare=(Totals,))


# What is not found, and what cannot be looked at.


class Coin(Randomizer, frozen=True):
    """Says whether an answer's code is odd, or lies; no answer gives the last of three reports."""

    @property
    def size(self) -> int:
        return 6

    @property
    def report(self) -> ArraySpec:
        return ArraySpec(dtype="u1", shape=(), high=3)

    def randomize(self, codes: NDArray[np.unsignedinteger], stream: Stream) -> Array:
        lies = stream.bernoulli(2**62, len(codes))
        return ((codes % 2) ^ lies).astype(np.uint8)

    def row(self, code: int) -> Sequence[Fraction]:
        likely, rare = Fraction(3, 4), Fraction(1, 4)
        return (rare, likely, Fraction(0)) if code % 2 else (likely, rare, Fraction(0))


class Unread(Coin, frozen=True):
    """Fails with its own reports."""

    def classify(self, reports: Array, first: int, second: int) -> NDArray[np.integer]:
        raise RuntimeError("no classes")


class Tossing(FrequencyOracle, frozen=True, kw_only=True):
    name = "tossing"

    randomizer = Coin()


class Unreadable(Tossing, frozen=True, kw_only=True):
    randomizer = Unread()


class Third(Tossing, frozen=True, kw_only=True):
    """Sends what the coin never says."""

    def answer(self, records: Records, question: Request, stream: Stream) -> Draws:
        return Draws(np.full(len(records), 2, np.uint8))


class Twice(Message, frozen=True):
    """A report, and another array that it fits as well."""

    reports: Array
    numbers: Array


class Ambiguous(Tossing, frozen=True, kw_only=True):
    name = "ambiguous"
    messages = (Request, Twice, Tallied)

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        asked, _, result = super().kinds(parties)
        reports = self.randomizer.reports(Bounds(1, self.max_records))
        return asked, Kind(Twice, reports=reports, numbers=reports), result

    def answer(self, records: Records, question: Request, stream: Stream) -> Any:
        drawn = super().answer(records, question, stream).reports
        return Twice(drawn, np.zeros(len(drawn), np.uint8))


class Pointing(Ambiguous, frozen=True, kw_only=True):
    """Says where they are."""

    def drawn(self, message: Message, event: PrivacyEvent, records: Records) -> list[Drawn] | None:
        if not isinstance(message, Twice) or not isinstance(event, Randomized):
            return None
        return [Drawn(event, np.arange(len(message.reports)), message.reports)]


class Overcounting(Pointing, frozen=True, kw_only=True):
    """Says that they are of more respondents than there are."""

    def drawn(self, message: Message, event: PrivacyEvent, records: Records) -> list[Drawn] | None:
        found = super().drawn(message, event, records)
        return found and [part._replace(respondents=part.respondents + 1) for part in found]


class Evasive(Pointing, frozen=True, kw_only=True):
    """Says that there are none."""

    def drawn(self, message: Message, event: PrivacyEvent, records: Records) -> list[Drawn] | None:
        return []


class Elsewhere(Pointing, frozen=True, kw_only=True):
    """Is charged for another draw than it points at."""

    def drawn(self, message: Message, event: PrivacyEvent, records: Records) -> list[Drawn] | None:
        other = Randomized(KeepUniform.with_keep(6, p=0.5), self.survey.names)
        found = super().drawn(message, event, records)
        return found and [part._replace(event=other) for part in found]


def checked(variant: Variant) -> tuple[str, ...]:
    return check_ledger(Rehearsal(make_setting(variant, answers(SURVEY, 6), seed=1)))


@pytest.mark.parametrize("cls", [Ambiguous, Overcounting, Evasive, Elsewhere])
def test_a_law_that_is_not_found_is_an_error(cls: type[Tossing]) -> None:
    with pytest.raises(
        AssertionError,
        match=r"'Twice' is charged as reports on smokes, drinks, and they are not found in it: .* "
        r"method 'drawn' of 'ambiguous'",
    ):
        checked(cls(survey=SURVEY))


def test_a_variant_says_where_its_reports_are() -> None:
    assert checked(Pointing(survey=SURVEY)) == ()


def test_a_report_that_no_answer_gives_is_an_error() -> None:
    assert checked(Tossing(survey=SURVEY)) == ()
    with pytest.raises(AssertionError, match="'Draws' has a report on smokes, drinks that its law"):
        checked(Third(survey=SURVEY))
    with pytest.raises(AssertionError, match="randomizer 'Unread' fails: RuntimeError: no classes"):
        checked(Unreadable(survey=SURVEY))


def test_what_cannot_be_looked_at_is_said() -> None:
    key = PrivKVVariant(survey=FILMS, epsilon=2.0)
    assert check_variant(key, answers(FILMS, 6), executors={}) == (
        "'KeyReport': randomizer 'PrivKV' does not bring its law",
    )
    pairs = PairRR.with_keep(BITS, 0.6, sums=LITERAL)
    assert check_variant(pairs, answers(BITS, 3), executors={}) == (
        "'Partial': its reports are under masks",
        "100 runs cannot exceed epsilon 5.8377, the ledger's",
    )
    dear, named = Smp(survey=BITS, epsilon=6.0), "SampledReports.sampled, SampledReports.reports"
    assert check_frequencies(dear, answers(BITS, 6), seed=1) == (
        f"4,000 reports in {named} cannot exceed epsilon 6.0000, the ledger's",
    )
