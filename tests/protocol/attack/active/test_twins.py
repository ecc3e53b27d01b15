"""What tells two twins apart: conducts that differ in exactly one thing, made by hand."""

from __future__ import annotations

import math

import pytest

from protocol import (
    AGGREGATOR,
    Composed,
    ExactCounts,
    Masked,
    Plain,
    PrivacyEvent,
    Public,
    Randomized,
)
from protocol.attack.active.target import Heard
from protocol.attack.active.twins import (
    Act,
    Conduct,
    Difference,
    compared,
    described,
    first_difference,
    play_conduct,
)
from protocol.messages import Declined, Envelope, Head
from tests.enumeration import keep

COINS = keep(2, 0.5)
DRAWN = Randomized(COINS, ("a",))


def word(
    body: bytes = b"same", *, kind: str = "Report", recipient: str = AGGREGATOR, seq: int = 0
) -> Envelope:
    return Envelope(b"session", "p1", recipient, seq, kind, body)


def act(
    *said: Envelope,
    events: tuple[PrivacyEvent | None, ...] | None = None,
    over: bool = False,
    ended: str = "",
) -> Act:
    read = tuple(one.body for one in said)
    return Act(said, read, (DRAWN,) * len(said) if events is None else events, over, ended)


def conduct(*acts: Act) -> Conduct:
    return Conduct(acts, (("party:1",),) * len(acts), (("Ask", 0, 1),))


OTHERWISE = {
    "nothing": (act(word()), act(), "it says Report with one record and nothing with the other"),
    "a kind": (
        act(word(), word(b"x", kind="Upload")),
        act(word(), word(b"y", kind="Partial")),
        "it says Report, Upload with one record and Report, Partial with the other",
    ),
    "one more": (
        act(word()),
        act(word(), word(b"x", seq=1)),
        "it says Report with one record and Report, Report with the other",
    ),
    "the link": (
        act(word(), over=True),
        act(word(), over=False),
        "its link ends with one record and not with the other",
    ),
    "the end": (
        act(word(), over=True, ended="done"),
        act(word(), over=True, ended="failed"),
        "it ends differently: done or failed",
    ),
}

OF_A_KIND = {
    "reasons": (
        act(word(b"terms", kind=Declined.kind())),
        act(word(b"messa", kind=Declined.kind())),
        Difference("it declines for different reasons", "Declined"),
    ),
    "a recipient": (
        act(word(recipient="p2")),
        act(word(recipient="p3")),
        Difference("Report goes to different members", "Report"),
    ),
    "a length": (
        act(word(b"four")),
        act(word(b"fives")),
        Difference("the length of Report differs", "Report"),
    ),
    "the second": (
        act(word(), word(b"four", kind="Upload")),
        act(word(), word(b"fives", kind="Upload")),
        Difference("the length of Upload differs", "Upload"),
    ),
    "a head's length": (
        act(word(b"four", kind=Head.kind())),
        act(word(b"fives", kind=Head.kind())),
        Difference("the length of Head differs", "Head"),
    ),
}

DIFFERENT = {name: (one, other, Difference(what)) for name, (one, other, what) in OTHERWISE.items()}
DIFFERENT |= OF_A_KIND


@pytest.mark.parametrize("name", DIFFERENT)
@pytest.mark.parametrize("before", [0, 1])
def test_one_difference_is_found_and_named(name: str, before: int) -> None:
    """Whichever conduct comes first, after acts that are the same, and before others."""
    one, other, expected = DIFFERENT[name]
    same = (act(word(b"before")),) * before
    conducts = conduct(*same, one, act()), conduct(*same, other, act())
    assert first_difference(*conducts, acts=before + 1) == expected
    assert compared(*conducts, attribute="a") == (expected, (), False)
    turned = first_difference(*conducts[::-1], acts=before + 1)
    assert turned is not None
    assert turned.kind == expected.kind
    # What comes later than asked for does not count.
    assert first_difference(*conducts, acts=before) is None


def test_the_first_of_two_differences_counts() -> None:
    one = conduct(act(word(b"four")), act(over=True))
    other = conduct(act(word(b"fives")), act())
    expected = Difference("the length of Report differs", "Report")
    assert first_difference(one, other, acts=2) == expected
    assert compared(one, other, attribute="a").difference == expected


def test_the_same_conduct_has_no_difference() -> None:
    one = conduct(act(word(), over=True, ended="done"))
    assert first_difference(one, one, acts=1) is None
    assert compared(one, one, attribute="a") == (None, (), False)


def test_what_one_hears_and_the_other_does_not() -> None:
    found = compared(conduct(act()), conduct(act(), act()), attribute="a")
    assert found == (Difference("it hears something or not"), (), False)


def test_drawn_bytes_are_charged_what_their_event_costs() -> None:
    """In clear: nothing after them is compared, for it may follow from them."""
    one = conduct(act(word(b"heads")), act(over=True))
    other = conduct(act(word(b"tails")), act())
    difference, excuses, hidden = compared(one, other, attribute="a")
    assert difference is None
    [excuse] = excuses
    assert (excuse.kind, excuse.event, excuse.hidden) == ("Report", DRAWN, False)
    assert excuse.epsilon == pytest.approx(math.log(3))
    assert not hidden
    # Their lengths and recipients are nothing that a draw decides.
    assert first_difference(one, other, acts=1) is None


@pytest.mark.parametrize("event", [None, Public(), Randomized(COINS, ("b",))])
def test_bytes_that_cost_nothing_must_be_the_same(event: PrivacyEvent | None) -> None:
    one, other = (conduct(act(word(body), events=(event,))) for body in (b"heads", b"tails"))
    expected = Difference("the bytes of Report differ, which is charged nothing", "Report")
    assert compared(one, other, attribute="a") == (expected, (), False)


@pytest.mark.parametrize(
    ("kind", "event"),
    [
        ("Counts", Masked(ExactCounts(("a",)))),
        ("Counts", Composed((Public(), Masked(ExactCounts(("a",)))))),
    ],
)
def test_after_bytes_that_masks_hide_all_is_compared(kind: str, event: PrivacyEvent) -> None:
    def made(body: bytes, *, over: bool = False, last: bytes = b"") -> Conduct:
        acts = [act(word(body, kind=kind), events=(event,)), act(over=over)]
        return conduct(*acts, act(word(last), events=(Public(),)))

    difference, excuses, hidden = compared(made(b"heads"), made(b"tails"), attribute="a")
    assert difference is None
    assert [(one.kind, one.event, one.epsilon, one.hidden) for one in excuses] == [
        (kind, event, math.inf, True)
    ]
    assert hidden
    for found in (
        compared(made(b"heads"), made(b"tails", over=True), attribute="a"),
        compared(made(b"heads", last=b"1"), made(b"tails", last=b"2"), attribute="a"),
    ):
        assert found.difference is not None
        assert found.excuses == excuses
        assert found.hidden


def test_a_head_signs_what_was_said() -> None:
    """Its bytes differ where earlier ones do; what follows it is still compared."""
    one = conduct(act(word(b"1", kind=Head.kind()), word(b"four"), events=(Public(),) * 2))
    other = conduct(act(word(b"2", kind=Head.kind()), word(b"4444"), events=(Public(),) * 2))
    expected = Difference("the bytes of Report differ, which is charged nothing", "Report")
    assert compared(one, other, attribute="a") == (expected, (), False)


def test_what_comes_before_drawn_bytes_does_not_follow_from_them() -> None:
    """The same bytes to another member, then a draw in the same act."""
    one = conduct(act(word(b"x", recipient="p2"), word(b"heads")))
    other = conduct(act(word(b"x", recipient="p3"), word(b"tails")))
    expected = Difference("Report goes to different members", "Report")
    assert compared(one, other, attribute="a") == (expected, (), False)
    assert first_difference(one, other, acts=1) == expected


def test_behaviours_differ_in_what_was_said_and_where_the_role_went() -> None:
    one = Conduct((act(word(), ended="done"),), (("a:1",), ("a:1",), ("b:2",)), (("Ask", 0, 1),))
    assert one.said == (word(),)
    assert one.behaviour == ((("a:1",), ("b:2",)), ("Report",), (("Ask", 0, 1),), "done")
    assert Conduct((), (), ()).behaviour == ((), (), (), "")


def test_events_in_words() -> None:
    assert described(DRAWN) == "one draw of KeepUniform on a"
    assert (
        described(Masked(ExactCounts(("a", "b"))))
        == "exact counts of a, b under masks, of which the sum is told"
    )
    assert described(Composed((Plain(("a",)), Plain(("a",)), Public()))) == (
        "the true answers to a and Public"
    )


class Stub:
    """A machine of which only is kept what happened to it."""

    finished, failure, place, waits = False, None, ("party:1",), ()

    def __init__(self) -> None:
        self.happened: list[str] = []

    def start(self, now: float) -> None:
        self.happened.append(f"start {now}")

    def receive(self, envelope: Envelope, now: float) -> None:
        self.happened.append(f"{envelope.kind} {now}")

    def expire(self, now: float) -> None:
        self.happened.append(f"expire {now}")

    def take(self) -> list[Envelope]:
        return []

    def read(self, envelope: Envelope) -> bytes:
        return envelope.body


def test_a_twin_hears_all_until_it_is_over_for_all() -> None:
    machine = Stub()
    heard = (
        Heard("start", 0.0),
        Heard("receive", 1.0, word(kind="Ask")),
        Heard("expire", 2.0),
        Heard("abandon", 0.0),
        Heard("expire", 3.0),
    )
    found = play_conduct(machine, heard)  # type: ignore[arg-type]
    assert machine.happened == ["start 0.0", "Ask 1.0", "expire 2.0"]
    assert len(found.acts) == len(found.places) == 3
