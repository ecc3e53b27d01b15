"""Protocols of other shapes that do not keep their word, and what is refused of any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import pytest

from protocol import (
    AGGREGATOR,
    Array,
    ArraySpec,
    Bounds,
    Derived,
    ExactCounts,
    Hidden,
    KeepUniform,
    LocalProtocolError,
    Mask,
    Me,
    Message,
    PartyId,
    Plain,
    PrivacyEvent,
    Public,
    Randomized,
    Records,
    Sealed,
    Seen,
    Variant,
    join_codes,
)
from protocol.simulation.rehearsal import Rehearsal
from protocol.simulation.setting import make_setting
from protocol.testing import check_variant, sealed
from protocol.testing.schedules import check_most
from scenarios import EXECUTORS
from tests.protocol.other_shapes import HOMEPAGES, example, records

NEAR: dict[str, Any] = {name: EXECUTORS[name] for name in ("local", "memory")}
shuffler, two_servers, ring = map(example, ("shuffler", "two_servers", "sealed_ring"))


class Cheat(shuffler.Shuffled, frozen=True):  # type: ignore[misc, name-defined]
    """Seals the true answer, and says that it is randomized."""

    name = "cheat"

    async def party(self, me: Me, records: Records) -> None:
        await me.receive(shuffler.Ask, AGGREGATOR)
        codes = join_codes(records.codes, self.survey.sizes).astype(np.uint32)
        reports = [shuffler.Report(code=codes[i : i + 1]) for i in range(len(codes))]
        await me.send(*me.roster.of("shuffler"), shuffler.Reports(me.seal(AGGREGATOR, reports)))


class KeepsOrder(shuffler.Shuffled, frozen=True):  # type: ignore[misc, name-defined]
    """A shuffler that passes boxes on as they came."""

    name = "keeps-order"

    async def shuffler(self, me: Me) -> None:
        got = await me.gather(shuffler.Reports, me.roster.parties, within=self.patience)
        boxes = np.concatenate([each.boxes for each in got.values()])
        await me.send(AGGREGATOR, shuffler.Batch(boxes=boxes))


class Careless(two_servers.TwoServers, frozen=True):  # type: ignore[misc, name-defined]
    """The first share is the histogram in the clear."""

    name = "careless"

    async def party(self, me: Me, records: Records) -> None:
        await me.receive(two_servers.Begin, AGGREGATOR)
        codes = join_codes(records.codes, self.survey.sizes)
        counts = np.bincount(codes, minlength=self.survey.cells).astype(np.uint32)
        for server, share in zip(me.roster.of("server"), (counts, 0 * counts), strict=True):
            await me.send(server, two_servers.Share(share=share))


class Depends(two_servers.TwoServers, frozen=True):  # type: ignore[misc, name-defined]
    """An event that depends on what is sealed."""

    name = "depends"

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        if isinstance(message, two_servers.Share):
            return Public() if message.share[0] == 0 else Plain(self.survey.names)
        event: PrivacyEvent = super().reveals(message, seen)
        return event


class OpenStart(Message, frozen=True):
    """The first party's counts under a mask."""

    sums: Annotated[Array, ring.WORDS]


class OpenRunning(Message, frozen=True):
    """The counts so far."""

    sums: Annotated[Array, ring.WORDS]


class OpenRing(ring.SealedRing, frozen=True):  # type: ignore[misc, name-defined]
    """A ring whose sums everybody sees."""

    name = "open-ring"
    messages = (ring.Begin, OpenStart, OpenRunning, ring.Unmasked, ring.Total)

    async def party(self, me: Me, records: Records) -> None:
        begin = await me.receive(ring.Begin, AGGREGATOR)
        members = me.roster.parties
        codes = join_codes(records.codes, self.survey.sizes)
        counts = np.bincount(codes, minlength=self.survey.cells).astype(np.uint32)
        place = members.index(me.id)
        before, after = members[place - 1], members[(place + 1) % len(members)]
        if place:
            kind = OpenStart if place == 1 else OpenRunning
            came = await me.receive(kind, before, within=self.patience)
            await me.send(after, OpenRunning(sums=came.sums + counts))
            return
        mask = (me.stream_for(begin).words(len(counts)) >> np.uint64(32)).astype(np.uint32)
        await me.send(after, OpenStart(sums=counts + mask))
        last = await me.receive(OpenRunning, before, within=self.patience)
        await me.send(AGGREGATOR, ring.Unmasked(sums=last.sums - mask))

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        own = ExactCounts(self.survey.names)
        if isinstance(message, OpenStart):
            return Hidden(own, masks=(Mask("start"),))
        if isinstance(message, OpenRunning):
            return Hidden(own, onto=("OpenStart", "OpenRunning"))
        if isinstance(message, ring.Unmasked):
            return Hidden(Public(), masks=(Mask("start", factor=-1),), onto=("OpenRunning",))
        event: PrivacyEvent = super().reveals(message, seen)
        return event


class LyingRing(OpenRing, frozen=True):
    """The same, and every party says that it has added a mask of its own."""

    name = "lying-ring"

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        if isinstance(message, OpenRunning):
            return Hidden(ExactCounts(self.survey.names), masks=(Mask("own"),))
        if isinstance(message, ring.Unmasked):
            return Derived()
        return super().reveals(message, seen)


class OpenReports(Message, frozen=True):
    """Boxes that everybody sees, and nothing says that these are boxes."""

    boxes: Annotated[Array, ArraySpec(dtype="u1", shape=(Bounds(0, "respondents"), "box"))]


class OpenBoxes(shuffler.Shuffled, frozen=True):  # type: ignore[misc, name-defined]
    """Boxes in an open kind."""

    name = "open-boxes"
    messages = (shuffler.Ask, shuffler.Report, OpenReports, shuffler.Batch, shuffler.Tally)

    async def party(self, me: Me, records: Records) -> None:
        ask = await me.receive(shuffler.Ask, AGGREGATOR)
        codes = join_codes(records.codes, self.survey.sizes)
        drawn = self.randomizer.randomize(codes, me.stream_for(ask)).astype(np.uint32)
        reports = [shuffler.Report(code=drawn[i : i + 1]) for i in range(len(drawn))]
        await me.send(*me.roster.of("shuffler"), OpenReports(me.seal(AGGREGATOR, reports)))

    async def shuffler(self, me: Me) -> None:
        got = await me.gather(OpenReports, me.roster.parties, within=self.patience)
        boxes = np.concatenate([each.boxes for each in got.values()])
        order = me.stream.derive("order").permutation(len(boxes))
        await me.send(AGGREGATOR, shuffler.Batch(boxes=boxes[order]))

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        if isinstance(message, OpenReports):
            return Sealed(AGGREGATOR, Randomized(self.randomizer, self.survey.names))
        event: PrivacyEvent = super().reveals(message, seen)
        return event


class InOrderOfAnswers(two_servers.TwoServers, frozen=True):  # type: ignore[misc, name-defined]
    """Sends its first share to the one or the other server, depending on its record."""

    name = "in-order-of-answers"

    async def party(self, me: Me, records: Records) -> None:
        begin = await me.receive(two_servers.Begin, AGGREGATOR)
        codes = join_codes(records.codes, self.survey.sizes)
        counts = np.bincount(codes, minlength=self.survey.cells).astype(np.uint32)
        mask = (me.stream_for(begin).words(len(counts)) >> np.uint64(32)).astype(np.uint32)
        turn = slice(None, None, 1 if codes[0] % 2 else -1)
        pairs = [*zip(me.roster.of("server"), (mask, counts - mask), strict=True)]
        for server, share in pairs[turn]:
            await me.send(server, two_servers.Share(share=share))


class Numbered(Message, frozen=True):
    """Something sealed, with a number outside."""

    sealed = True
    round: int
    share: Annotated[Array, two_servers.WORDS]


class NumberedByAnswer(two_servers.TwoServers, frozen=True):  # type: ignore[misc, name-defined]
    """The number outside a box depends on what is in it."""

    name = "numbered-by-answer"
    roles = ("server",)
    messages = (two_servers.Begin, Numbered, two_servers.Total)

    async def party(self, me: Me, records: Records) -> None:
        await me.receive(two_servers.Begin, AGGREGATOR)
        odd = int(records.codes[0, 0]) % 2
        for number in (odd, 1 - odd):
            zeros = np.zeros(self.survey.cells, np.uint32)
            await me.send(*me.roster.of("server"), Numbered(round=number, share=zeros))

    async def server(self, me: Me) -> None:
        for number in range(2):
            await me.gather(Numbered, me.roster.parties, round=number, within=self.patience)

    async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Message:
        await me.broadcast(parties, two_servers.Begin())
        counts = np.zeros(self.survey.cells, np.uint32)
        counts[0] = 1
        total: Message = two_servers.Total(counts=counts)
        return total

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        if isinstance(message, Numbered):
            return Plain(self.survey.names)
        event: PrivacyEvent = super().reveals(message, seen)
        return event


@pytest.mark.parametrize(
    ("cheating", "complaint"),
    [
        (Cheat, "reports in Reports.boxes, .* tell at least epsilon"),
        (KeepsOrder, "'Batch' is said to merge, and it shows which party has sent what"),
        (Careless, "server-1 alone can tell .* went by target's Share.share"),
        (Depends, "'Share' is sealed, and its event depends on what is sealed"),
        (OpenRing, "'OpenStart' is said to be hidden by masks, and aggregator alone learns"),
        (LyingRing, "Unmasked.sums"),
        (OpenBoxes, "'OpenReports' holds boxes and is not sealed"),
        (InOrderOfAnswers, r"'Share'\) goes to another member depending on a record"),
        (NumberedByAnswer, r"'Numbered'\) shows another round depending on a record"),
    ],
)
def test_who_does_not_keep_her_word_is_refused(
    cheating: type[Variant], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed, "RUNS", 70)  # Half of them are guesses: as many as it takes.
    with pytest.raises(AssertionError, match=complaint):
        check_variant(cheating(survey=HOMEPAGES), records(HOMEPAGES, 6), executors=NEAR)


class HoldsOpenly(Message, frozen=True):
    """Boxes, and the field says so."""

    boxes: Annotated[
        Array,
        ArraySpec(dtype="u1", shape=(Bounds(0, "respondents"), "box"), holds=shuffler.Report),
    ]


def test_boxes_that_a_field_declares_in_an_open_kind_are_refused_before_any_run() -> None:
    class Declared(OpenBoxes, frozen=True):
        messages = (shuffler.Ask, shuffler.Report, HoldsOpenly, shuffler.Batch, shuffler.Tally)

    with pytest.raises(LocalProtocolError, match="'HoldsOpenly' holds boxes and is not sealed"):
        check_variant(Declared(survey=HOMEPAGES), records(HOMEPAGES, 4), executors=NEAR)


def test_heeds_names_no_sealed_kind() -> None:
    class Heeding(two_servers.TwoServers, frozen=True):  # type: ignore[misc, name-defined]
        heeds = (two_servers.Share,)

    with pytest.raises(ValueError, match="heeds names 'Share', which is sealed"):
        Heeding(survey=HOMEPAGES)


def test_the_aggregator_alone_publishes() -> None:
    class Publishing(two_servers.TwoServers, frozen=True):  # type: ignore[misc, name-defined]
        async def server(self, me: Me) -> Message:
            await super().server(me)
            return two_servers.Begin()

    run = Rehearsal(make_setting(Publishing(survey=HOMEPAGES), records(HOMEPAGES, 4), seed=1))
    assert "returned 'Begin': the aggregator alone publishes" in run.endings["server-1"]


@pytest.mark.parametrize(
    ("roles", "complaint"),
    [
        (("server", "nobody"), "role 'nobody': expected an async method"),
        (("party",), "role 'party': expected an async method 'party' of its own"),
        (("a server",), "role 'a server': expected a word of lower-case letters"),
    ],
)
def test_a_role_is_a_method_of_its_own(roles: tuple[str, ...], complaint: str) -> None:
    class Roles(two_servers.TwoServers, frozen=True):  # type: ignore[misc, name-defined]
        pass

    Roles.roles = roles
    with pytest.raises(ValueError, match=complaint):
        Roles(survey=HOMEPAGES)


def test_what_a_service_alone_reads_counts_for_what_a_variant_promises() -> None:
    class Promising(NumberedByAnswer, frozen=True):
        def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
            if isinstance(message, Numbered):
                coin = KeepUniform.with_epsilon(self.survey.cells, epsilon=1.0)
                return Randomized(coin, self.survey.names)
            return super().reveals(message, seen)

        def most(self) -> float:
            return 1.5

    run = Rehearsal(make_setting(Promising(survey=HOMEPAGES), records(HOMEPAGES, 4), seed=1))
    with pytest.raises(AssertionError, match="most"):
        check_most(run)
