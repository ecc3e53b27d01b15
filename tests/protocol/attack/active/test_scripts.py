"""Scripts: as JSON and in words, what edits there are, and what they leave as it was."""

from __future__ import annotations

import math
from functools import partial
from typing import get_args

import msgspec
import numpy as np
import pytest

from protocol import AGGREGATOR, RemoteProtocolError, SecureSum, Stream, Variant
from protocol.attack.active import choosing
from protocol.attack.active.edits import equal_sum_blocks, same_words, writable_array
from protocol.attack.active.moves import sampled, single_moves, smaller
from protocol.attack.active.script import HONEST, Does, Edit, Move, Script, Source
from protocol.attack.active.worlds import Library, Study, make_library
from protocol.sharing.messages import Totals
from protocol.variants import RRBA, RRIndependent, SecureSumVariant
from protocol.variants.rrba.rrba import Question
from tests.every_variant import BITS
from tests.recorded.runs import answers

FIVE = answers(BITS, 5)


def study_of(variant: Variant) -> Study:
    return Study(variant=variant, records=FIVE, target=0, seed=1)


@pytest.fixture(scope="module")
def blocks() -> Study:
    return study_of(RRBA(survey=BITS, p=0.5, mix=0.3, block=5, groups="view"))


@pytest.fixture(scope="module")
def told(blocks: Study) -> Library:
    return make_library(blocks)


def edited(study: Study, library: Library, edit: Edit) -> Question:
    body = library.told[0][AGGREGATOR, study.party]["Question", 0]
    changed = study.grammar.edited(
        "Question", body, [edit], partial(library.body, (AGGREGATOR, study.party)), nth=0
    )
    question = study.charter.codec.decode("Question", changed)
    assert isinstance(question, Question)
    return question


def test_a_script_is_one_line_of_json_and_some_lines_of_words() -> None:
    edit = Edit(("weights",), "move", cells=(0, 1), value=-1)
    script = Script(
        (
            Move("rewrite", "Question", edits=(edit,)),
            Move("insert", "Question", before=True, says=Source("Answers"), to="all"),
        )
    )
    assert msgspec.json.decode(script.to_json(), type=Script) == script
    assert "\n" not in script.to_json()
    assert str(script).splitlines() == [
        "rewrite Question 0 to the target with weights: all but 1 of cell 0 to cell 1",
        "insert Answers 0 before Question 0 to all",
    ]


def test_a_move_of_weights_leaves_the_table_summing_to_one(blocks: Study, told: Library) -> None:
    honest = edited(blocks, told, Edit(("over",), "set", value=False)).weights
    moved = edited(blocks, told, Edit(("weights",), "move", cells=(0, 1), value=-1)).weights
    assert moved[0] == 1
    assert sum(moved.tolist()) == sum(honest.tolist())
    assert np.array_equal(moved[2:], honest[2:])


def test_an_edit_that_the_kind_does_not_allow_is_left_out(blocks: Study, told: Library) -> None:
    honest = edited(blocks, told, Edit(("over",), "set", value=False))
    for edit in (
        Edit(("groups",), "fill", value=255),
        Edit(("block",), "set", value="first"),
        Edit(("nothing", 3), "set", value=1),
        Edit(("weights",), "take", world=999),
    ):
        again = edited(blocks, told, edit)
        assert np.array_equal(again.groups, honest.groups)
        assert again.block == honest.block


def test_all_proposals_stay_within_the_kinds_bounds(blocks: Study, told: Library) -> None:
    body = told.told[0][AGGREGATOR, blocks.party]["Question", 0]
    proposed = list(blocks.grammar.proposals("Question", body))
    fields = {edit.path[0] for edit in proposed}
    assert fields == {"block", "over", "groups", "weights"}
    for edit in proposed:
        changed = blocks.grammar.edited(
            "Question", body, [edit], partial(told.body, (AGGREGATOR, blocks.party)), nth=0
        )
        blocks.charter.codec.decode("Question", changed)


def test_a_kind_that_nobody_says_is_made_up() -> None:
    study = study_of(SecureSumVariant(survey=BITS))
    body = study.grammar.made_up("Totals")
    assert body is not None
    totals = study.charter.codec.decode("Totals", body)
    assert isinstance(totals, Totals)
    assert not totals.totals.any()
    with pytest.raises(RemoteProtocolError):
        study.charter.codec.decode("Totals", body + b"\0")


def test_tables_of_one_sum_are_seen_in_their_message() -> None:
    tables = np.array([1, 2, 0, 3, 1, 1, 1], np.int64)
    assert equal_sum_blocks(tables) == [slice(0, 2), slice(2, 4), slice(4, 7)]
    assert equal_sum_blocks(np.array([5, 1, 1])) == [slice(0, 3)]


def test_rows_are_made_to_sum_to_those_of_another_world() -> None:
    study = study_of(SecureSumVariant(survey=BITS, sums=SecureSum(profile="literal")))
    library = make_library(study)
    bodies = [library.told[world][AGGREGATOR, study.party]["Partials", 0] for world in (0, 1)]
    edit = Edit(("values",), "sums", cells=(1,), world=1)
    changed = study.grammar.edited(
        "Partials", bodies[0], [edit], partial(library.body, (AGGREGATOR, study.party)), nth=0
    )
    rows = [
        writable_array(study.grammar.field("Partials", b, "values")) for b in (bodies[0], changed)
    ]
    assert np.array_equal(np.delete(rows[0], 1, axis=0), np.delete(rows[1], 1, axis=0))
    schema = next(one for one in study.charter.codec.schemas if one.name == "Partials")
    assert same_words(schema, changed, bodies[1])
    assert not same_words(schema, changed, bodies[0])
    # One row less is the hearer's own.
    own = rows[0][0].tobytes()
    assert same_words(schema, changed, changed, ({own}, set()))
    assert not same_words(schema, changed, bodies[1], ({own}, set()))


def test_in_an_imagined_world_nobody_has_a_value() -> None:
    study = study_of(SecureSumVariant(survey=BITS, everyone=True))
    own = int(FIVE.codes[0, 0])
    for world, code in ((1, own), (2, 1 - own)):
        holdings = study.imagined(world).holdings.values()
        assert all(int(held.codes[0, 0]) != code for held in holdings)


def test_the_worlds_of_exchanged_records_are_those_of_the_true_ones() -> None:
    study = study_of(RRIndependent.with_keep(BITS, 0.5))
    beside = study.exchanged(study.neighbours[0])
    assert beside is not None
    assert int(beside.records.codes[0, 0]) == study.neighbours[0].code
    assert sorted(map(tuple, beside.records.codes.tolist())) == sorted(
        map(tuple, FIVE.codes.tolist())
    )
    gone = {int(h.codes[0, 0]) for h in beside.imagined(1).holdings.values()}
    assert gone == {int(h.codes[0, 0]) for h in study.imagined(1).holdings.values()}


def test_samples_have_of_every_sort_and_follow_from_their_stream(
    blocks: Study, told: Library
) -> None:
    stream = Stream(bytes(32))
    some = sampled(blocks, told, most=60, stream=stream)
    assert some == sampled(blocks, told, most=60, stream=stream)
    assert len(some) == len(set(some)) == 60
    every = single_moves(blocks, told)
    assert {move.does for script in every for move in script.moves} == set(get_args(Does))
    assert {move.of for script in some for move in script.moves} == {"Question"}
    assert set(some) <= set(every)


def test_smaller_scripts_do_less() -> None:
    edit = Edit(("weights",), "add", cells=(0,), value=5)
    script = Script((Move("drop", "Ask"), Move("rewrite", "Ask", to="all", edits=(edit,))))
    found = list(smaller(script))
    assert found[:2] == [Script(script.moves[1:]), Script(script.moves[:1])]
    seen = {script}
    waiting = [script]
    while waiting:  # It ends.
        for one in smaller(waiting.pop()):
            if one not in seen:
                seen.add(one)
                waiting.append(one)
    assert Script() in seen
    assert AGGREGATOR not in str(script)


def test_nothing_is_tried_twice_and_a_search_that_is_stale_ends(
    blocks: Study, told: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing, "STALE", 30)
    choice = choosing.Choice(blocks, told, scripts=20, stream=Stream(bytes(32)))
    tried: list[Script] = []
    while batch := choice.batch(8):
        assert len(batch) <= 8
        for script in batch:
            choice.tried(script, new=False, excess=-math.inf)
        tried += batch
    assert tried[0] == HONEST
    assert len(set(tried)) == len(tried)
    assert 30 <= len(tried) < 30 + 8


@pytest.mark.parametrize(("new", "excess"), [(True, -math.inf), (False, 0.5), (False, 0.0)])
def test_what_led_somewhere_is_gone_on_with(
    blocks: Study, told: Library, new: bool, excess: float
) -> None:
    choice = choosing.Choice(blocks, told, scripts=2, stream=Stream(bytes(32)))
    [_, led] = choice.batch(2)
    choice.tried(led, new=new, excess=excess)
    after = choice.batch(10)
    assert len(after) == 10
    goes_on = new or excess > 0
    assert all(script.moves[:1] == led.moves for script in after) == goes_on
    assert not goes_on or all(len(script.moves) > 1 for script in after)
