"""What the page of an audit says in words: what is exact, what is left open, what is left out."""

from __future__ import annotations

import math
import re

import msgspec
import numpy as np
import pytest

from protocol import AdjustedEstimate, Projection, worst_coalition
from protocol.accounting.composition import Composition
from protocol.audit.ledger import REFUSED
from protocol.audit.replay import Replay
from protocol.estimators.analysis import Analysis
from protocol.estimators.inference.intervals import Intervals
from protocol.transcript.reader import TranscriptReader
from protocol.variants import RRBA, RRIndependent
from protocol.variants.keyvalue.estimate import KeyValueTables
from scenarios.statement.found import LARGEST
from scenarios.wording.formatting import NONE, epsilon, signed
from tests.every_variant import BITS, examples
from tests.pages import Page, audited, independent, page_of, summed, worst_of
from tests.recorded.runs import recorded
from tests.tiers import thinned


def test_exact_shares_have_no_errors() -> None:
    read = Page(page_of(summed()))
    assert "These are exact: nothing in them was randomized." in read.said
    assert "interval" not in read.said
    about = "95 % intervals about the respondents: they allow for randomization alone."
    assert about in Page(page_of(independent())).said


def test_of_exact_shares_a_population_is_still_estimated() -> None:
    read = Page(page_of(summed(), intervals=Intervals(0.9, "population")))
    assert "These are exact" not in read.said
    assert "90 % intervals about the population, if the respondents are a simple" in read.said


def test_an_estimate_without_known_errors_has_unknown_intervals() -> None:
    found = audited(independent())
    assert found.estimate.whole_reports is not None
    adjusted = msgspec.structs.replace(found, estimate=AdjustedEstimate.of(found.estimate))
    read = Page(page_of(independent(), adjusted))
    sizes = [table.values.size for table in adjusted.estimate.marginals().values()]
    # In their tables, and the largest of each at the top: all if but one would be left out.
    shown = sum(sizes) + sum(size if size <= LARGEST + 1 else LARGEST for size in sizes)
    assert len(re.findall(r"\d\.\d % unknown", read.said)) == shown
    assert "or where the error of the estimate is not known." in read.said
    assert "whisker" not in [line["class"] for line in read.tags("line")]
    assert "% unknown" not in Page(page_of(independent())).said


@pytest.mark.parametrize("name", thinned(["privkv", "numeric-mean"], 1))
def test_means_and_keys_have_intervals_of_their_own(name: str) -> None:
    asked = Intervals(0.8)
    variant = next(one.variant for one in examples() if one.variant.name == name)
    content = recorded(variant, 400, parties=4, signed=True).content
    estimate = audited(content).estimate
    read = Page(page_of(content, intervals=asked))
    assert f"{asked.says}." in read.said
    if isinstance(estimate, KeyValueTables):
        low, high = estimate.frequency_intervals(*asked)
        figures = [*np.transpose([estimate.frequencies, low, high]) * 100]
        low, high = estimate.mean_intervals(*asked)
        figures += [*np.transpose([estimate.means, low, high])]
    else:
        assert estimate is not None
        figures = [(mean.value, *asked.of(mean)) for mean in estimate.attribute_means().values()]
    assert figures
    for figure in figures:
        shown = ("{} [{}, {}]".format(*(signed(n, digits) for n in figure)) for digits in range(4))
        assert any(words in read.said for words in shown), figure


def test_of_a_single_report_intervals_are_wide_and_not_exact() -> None:
    variant = RRBA(survey=BITS, p=0.5, k=2)
    read = Page(page_of(recorded(variant, 1, signed=True).content))
    assert "These are exact" not in read.said
    widths = [
        float(high) - float(low) for low, high in re.findall(r"\[([\d.]+), ([\d.]+)\] %", read.said)
    ]
    assert all(width > 50 for width in widths)


@pytest.mark.parametrize("projection", ["none", "simplex"])
def test_announced_intervals_are_those_that_were_announced(projection: Projection) -> None:
    name = BITS.names[0]
    analysis = Analysis(tables=((name,),), level=0.9, about="population", projection=projection)
    content = recorded(RRIndependent.with_keep(BITS, 0.6), 40, analysis=analysis, signed=True)
    found = audited(content.content)
    assert found.estimate is not None
    [announced] = analysis.announced_tables(found.estimate)
    read = Page(page_of(content.content, announced=(announced,), intervals=Intervals(0.5)))
    for cell, low, high in zip(
        announced.cells, *found.estimate.table(name).interval(0.9, "population"), strict=True
    ):
        ends = f"[{100 * low:.1f}, {100 * high:.1f}] %"
        assert f"{cell.categories[0]} {100 * cell.value:.1f} % {ends}" in read.said
    assert "90 % intervals about the population, if" in read.said
    assert "50 % intervals about the respondents" in read.said
    assert ("are projected (simplex), which biases them." in read.said) == (projection != "none")


def test_what_a_digest_is_compared_with() -> None:
    said = Page(page_of(independent())).said
    assert "No published digest or checkpoint was compared" in said
    assert "cannot be distinguished from the original" in said


def test_a_threshold_has_its_probability_beside_it() -> None:
    said = Page(page_of(independent())).said
    assert re.search(r"\(type: keep, p: 0\.6, size: 3, threshold: 11068046444225730560\)", said)


def test_replays_that_agree_leave_the_records_open() -> None:
    found = audited(independent())
    assert "the true records" not in Page(page_of(independent(), found)).said
    name = found.charter.roster.parties[0]
    agrees = msgspec.structs.replace(found, replays=(Replay(member=name, follows=True),))
    said = Page(page_of(independent(), agrees)).said
    assert "That these are the true records is not shown" in said
    assert "a false one passes with probability 0.4 in each report" in said


@pytest.mark.slow
def test_a_figure_at_a_delta_that_bounds_nothing_is_left_out() -> None:
    endless = Composition(
        epsilon=math.inf, delta=1e-6, relation="r", assumption="a", method="meth", tight=False
    )
    said = Page(page_of(summed(), worst_respondent=worst_of(endless))).said
    assert "other ways to add up" not in said
    assert "meth" not in said.replace("method", "")
    finite = msgspec.structs.replace(endless, epsilon=1.5)
    both = {"worst_respondent": worst_of(finite), "second_opinions": (endless,)}
    said = Page(page_of(independent(), **both)).said
    assert "meth 1.5 1e-06" in said
    assert "meth ∞" not in said


def test_the_worst_coalition_of_no_sum_names_nobody() -> None:
    found = audited(independent())
    worst = worst_coalition(found.charter, TranscriptReader([independent()]), 2)
    said = Page(page_of(independent(), found, worst=worst)).said
    assert "There is no secure sum on record to take apart." in said
    assert "Nothing worse" not in said
    assert "party-01, party-02." not in said


def test_a_message_that_was_refused_at_the_switch_is_said_to_be() -> None:
    found = audited(independent())
    name, account = next(iter(found.ledger.accounts.items()))
    [charge] = account.trail
    shown = f"#{charge.seq} Report: {epsilon(charge.loss.record)}"
    refused = "refused at the switch, so anything"
    said = Page(page_of(independent(), found, account=account)).said
    assert shown in said
    assert refused not in said
    again = charge._replace(seq=REFUSED, kind="")
    doubled = msgspec.structs.replace(account, trail=(charge, again))
    ledger = msgspec.structs.replace(found.ledger, accounts={name: doubled})
    found = msgspec.structs.replace(found, ledger=ledger)
    said = Page(page_of(independent(), found, account=doubled)).said
    assert f"{shown}, {refused}" in said
    assert f"#{charge.seq} Report {epsilon(charge.loss.record)}" in said
    assert f"refused {NONE} {epsilon(charge.loss.record)}" in said
