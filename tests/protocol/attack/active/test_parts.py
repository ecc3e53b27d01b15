"""Parts of an active attack by themselves: single edits, worlds, and what two runs share."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from protocol.attack.active import edits
from protocol.attack.active.script import Edit
from protocol.attack.active.second_runs import drawn_fields
from protocol.attack.active.worlds import Study
from protocol.variants import RRIndependent
from protocol.wire.schemas import Bool, Items
from tests.every_variant import BITS
from tests.recorded.runs import answers


def test_a_flip_changes_one_bit_of_one_byte() -> None:
    for at in range(3):
        expected = bytearray(b"abc")
        expected[at] ^= 1
        assert edits._edited_octets(b"abc", Edit((), "flip", cells=(at,))) == bytes(expected)


def test_neighbours_in_a_list_change_places() -> None:
    proposed = edits._item_edits(
        (), [True, False, True], Items(of=Bool(), shortest=0, longest=None), 0
    )
    assert [one.cells for one in proposed if one.how == "swap"] == [(0, 1), (1, 2)]


def test_fields_that_two_runs_draw_are_those_that_differ() -> None:
    """A word that only one of them says tells nothing."""
    first = {
        ("Report", 0): SimpleNamespace(fields={"drawn": b"1", "same": b"2"}),
        ("Report", 1): SimpleNamespace(fields={"drawn": b"3"}),
    }
    other = {("Report", 0): SimpleNamespace(fields={"drawn": b"4", "same": b"2"})}
    found = drawn_fields(first, other)  # type: ignore[arg-type]
    assert found == {(("Report", 0), "drawn")}


def test_in_each_world_nobody_has_one_of_the_two_values() -> None:
    records = answers(BITS, 5)
    study = Study(variant=RRIndependent.with_epsilon(BITS, 1.0), records=records, target=0, seed=1)
    assert study.worlds == 1 + 2 * len(study.neighbours) >= 5
    assert study.imagined(0) is study.setting
    for number, neighbour in enumerate(study.neighbours):
        [axis] = BITS.axes((neighbour.attribute,))
        own = int(records.codes[0, axis])
        for world, gone in ((2 * number + 1, own), (2 * number + 2, neighbour.code)):
            held = study.imagined(world).holdings.values()
            codes = np.concatenate([one.codes for one in held])
            assert gone not in codes[:, axis]
            others = [other for other in range(len(BITS.sizes)) if other != axis]
            assert (codes[:, others] == records.codes[:, others]).all()
