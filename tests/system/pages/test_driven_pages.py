"""The page's own script, simulated with its server while things go wrong."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import pytest

from tests.system.pages.driven import Driven
from tests.system.pages.invariants import INVARIANTS, Look, broken_in
from tests.system.pages.model import Page
from tests.system.pages.schedule import Down, Killed, Lost, Reloaded, Schedule, Twice, drawn
from tests.system.pages.world import Course, play
from tests.tiers import slow, thinned
from tests.verifier.javascript import needs_node

pytestmark = needs_node

SCHEDULES = 50
BY_NAME = {invariant.__name__: invariant for invariant in INVARIANTS}
UNLOCKED = 5
"""Every so many browsers have no Web Locks."""

script = functools.partial(play, page=Driven)
unlocked = functools.partial(play, page=functools.partial(Driven, locks=False))


@pytest.mark.parametrize("seed", thinned(range(SCHEDULES), 4))
def test_whatever_goes_wrong(seed: int) -> None:
    schedule = drawn(seed)
    again = script if (seed + 1) % UNLOCKED else unlocked
    assert broken_in(again(schedule), again) == [], schedule


ATTEMPTS = (
    Down(at=8.9, sync="before", power=False, torn=0, away=5.0, then="anew"),
    Down(at=55.441, sync=None, power=True, torn=915815, away=24.983, then="anew"),
)
FOUND = {
    "an answer is called lost before the server was asked": (
        "nobody_is_alarmed",
        Schedule(50, (Killed(place=2, change=3, stored=False, away=None),)),
    ),
    "an attempt begins between terms and state": (
        "an_honest_server_is_not_refused",
        Schedule(127, ATTEMPTS[:1]),
    ),
    "an attempt begins between place and terms": (
        "an_honest_server_is_not_refused",
        Schedule(283, ATTEMPTS[1:]),
    ),
}
"""Of faults that the script once had: the invariant, and a schedule that broke it."""


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_is_mended(name: str) -> None:
    invariant, schedule = FOUND[name]
    assert next(BY_NAME[invariant](Look(script(schedule), script)), None) is None


def test_a_course_follows_from_its_schedule() -> None:
    schedule = drawn(5)
    one, other = (script(schedule) for _ in range(2))
    assert [one.stored, one.asked, one.showed] == [other.stored, other.asked, other.showed]


def test_the_script_and_the_model_send_the_same() -> None:
    """Where nothing goes wrong, a page sends what the model sends, byte for byte."""
    model, real = (
        {posted.body for posted in play(Schedule(0), page=page).posted} for page in (Page, Driven)
    )
    assert model == real


FAULTS: dict[str, tuple[str, tuple[type, ...], int, tuple[tuple[str, str], ...]]] = {
    "draws again in another tab": (
        "one_draw",
        (Twice,),
        40,
        (
            ("if (kept && kept.attempt >= this.agreement.attempt) return kept;", ""),
            ("if (this.#stored() !== read) return this.#record();", ""),
            ("(kept?.report ? this.#same(kept) : answer(", "(answer("),
        ),
    ),
    "stores once it is acknowledged": (
        "one_draw",
        (Lost, Killed, Reloaded),
        60,
        (
            ("this.#write(record);\n    return record;", "return record;"),
            ("if (this.#record()?.body === record.body) this.#write", "this.#write"),
        ),
    ),
    "shows before the acknowledgement": (
        "shown_is_acknowledged",
        (),
        2,
        (
            (
                'this.#become("sending", { waiting: null, isStored: true });\n    this.#charge',
                'this.#become("sending", { shown: this.#shown(record) });\n    this.#charge',
            ),
        ),
    ),
    "draws in each attempt": (
        "one_draw",
        (Down,),
        60,
        (
            (
                "return this.#once((kept) => this.#same(kept));",
                "return this.#once(() => answer(this.agreement, [1, 1], this.#with.words));",
            ),
        ),
    ),
    "stores the true answer": (
        "truth_is_not_stored",
        (),
        8,
        (
            (
                "send(codes) {",
                'send(codes) {\n    this.#with.storage.setItem("draft", JSON.stringify(codes));',
            ),
        ),
    ),
}
"""Of each fault of the script: the invariant, what shows it, in how many, and what is replaced."""


@pytest.mark.parametrize(
    "name", [slow(name) if kinds else name for name, (_, kinds, *_) in FAULTS.items()]
)
def test_a_fault_of_the_script_is_found(name: str) -> None:
    invariant, kinds, within, before = FAULTS[name]
    faulty: Callable[..., Course] = functools.partial(
        play, page=functools.partial(Driven, before=before), variant=0
    )
    likely = (
        schedule
        for schedule in map(drawn, itertools.count())
        if schedule.honest and (not kinds or any(isinstance(f, kinds) for f in schedule.faults))
    )
    assert any(
        next(BY_NAME[invariant](Look(faulty(schedule), faulty)), None)
        for schedule in itertools.islice(likely, within)
    )
