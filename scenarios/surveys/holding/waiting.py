"""Surveys with a question that waits for each party until the closing time."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, NamedTuple, Unpack

import trio

from parties.actor import Channel, run_machine
from parties.keeping.attempts import counting
from parties.keeping.members import Member
from parties.keeping.places import (
    Withdrawal,
    linked,
    replaced_by,
    unused_spares,
    withdrawals,
)
from parties.session import LINGER
from protocol.errors import UsageError
from protocol.messages import AGGREGATOR, OUT_OF_TIME, WITHDRAWN, Envelope, PartyId
from protocol.session.charter import Charter
from protocol.session.machine import Machine
from protocol.session.variant import Variant
from protocol.variants.reports.one_report import OneReport
from scenarios.errors import say
from scenarios.running.loopback import allow_connections
from scenarios.running.outcomes import Outcome
from scenarios.surveys.answering import SILENCE
from scenarios.surveys.holding.aggregating import hold_by, lost_in
from scenarios.surveys.holding.attempts import Attempt, Opening, attempting
from scenarios.surveys.holding.closing import closed, count_out, seconds_left
from scenarios.surveys.holding.restored import Owing
from scenarios.surveys.members import tls_context
from transports.background import running
from transports.base import Limits
from transports.lasting.hub import STAYED_AWAY, LastingHub, open_lasting
from transports.memory import MemoryLink
from transports.records.commits import Commits
from transports.switch import Switch
from transports.tls import server_context

if TYPE_CHECKING:
    from scenarios.surveys.holding.serving import Serving
    from transports.web.gateway import Gateway

BEGINNING = 600.0
"""Seconds for which witnesses are asked for the first checkpoint, unless it closes before."""

GRAIN = 60.0
"""Seconds to which times on record are rounded up."""

SPARE = f"{WITHDRAWN}: a spare place that was not handed out"
"""The reason for the departure of a spare place that has not answered when the survey closes."""

_PATIENCE = 60.0  # Seconds before another attempt to read.
_LOOK = 1.0  # Seconds between two looks for withdrawals.
_PARTING = 1.0  # Seconds for the last acknowledgements.


def waits(variant: Variant) -> bool:
    """Return whether a question waits for each party until the survey closes.

    It does if a party hears one question and gives one report, a closing time is agreed, and
    nothing else ends the wait.
    """
    agreed = variant.survey.closing is not None and variant.patience is None
    return agreed and isinstance(variant, OneReport)


def check_open(member: Member) -> None:
    """Check that an attempt began before the survey closed, or can still begin.

    Raises:
        UsageError: it cannot; or another program is at it.
        OSError: its attempts cannot be read.
    """
    charter = member.charter
    with counting(member.folder) as counter:
        begun = counter.last is not None and counter.last.state == "begun"
    if not begun and (seconds_left(charter) or 1.0) <= 0:
        raise UsageError(
            f"{member.folder}: the survey closed at {charter.variant.survey.closes}, as everybody "
            "was told: nobody can answer it any more"
        )


def witness_seconds(charter: Charter) -> float:
    """The seconds for which witnesses are asked before such a survey begins."""
    return min(BEGINNING, seconds_left(charter) or BEGINNING)


def await_answers(
    member: Member,
    *,
    parties: tuple[str, int] | None,
    pages: Callable[[Charter], Pages] | None = None,
    listening: Callable[[str], object],
    publish: Callable[[Outcome[Variant]], object] | None = None,
    **opening: Unpack[Opening],
) -> Outcome[Variant]:
    """Hold such a survey: ask, take answers until it closes, publish, and record.

    The question waits for each party separately.

    Args:
        member: the aggregator, of a survey that ``waits``.
        parties: address for parties over TLS; None without such parties.
        pages: given the charter of this attempt, where people answer from a page; None if nobody
            does.
        listening: called with the addresses, in words, once it listens.

    All else is as for ``aggregate_survey``.
    """
    with attempting(member, **opening) as attempt:
        web = None if pages is None else pages(attempt.charter)
        waiting = _Waiting(attempt, listening, parties=parties, pages=web)
        outcome = trio.run(hold_by, attempt, waiting.carry)
        if publish is not None:
            publish(outcome)
    return outcome


class Pages(NamedTuple):
    """The way in for people who answer on a web page.

    Args:
        gateway: takes their answers.
        serving: the server.
    """

    gateway: Gateway
    serving: Serving


class _Waiting:
    """An attempt that takes answers until the survey closes.

    Args:
        attempt: the attempt, new or resumed.
        parties: address for parties over TLS; None without such parties.
        pages: the way in from a web page; None without pages.
        listening: called with the addresses, in words, once it listens.
    """

    def __init__(
        self,
        attempt: Attempt,
        listening: Callable[[str], object],
        *,
        parties: tuple[str, int] | None,
        pages: Pages | None = None,
    ) -> None:
        self._attempt = attempt
        self._parties = parties
        self._pages = pages
        self._listening = listening
        places = frozenset(() if pages is None else linked(attempt.charter))
        roster = attempt.charter.roster.parties
        self._others = tuple(name for name in roster if name not in places)
        self._early = trio.Event()
        self._taken_back: Sequence[Withdrawal] = ()
        self._hub: LastingHub | None = None

    async def carry(
        self,
        attempt: Attempt,
        machine: Machine,
        unsaid: Sequence[Envelope] | None,
        commits: Commits,
    ) -> Mapping[PartyId, str]:
        """Carry the aggregator's machine to its end; as ``Carry``."""
        exchange, past, operation = attempt.exchange, attempt.past, attempt.operation
        allow_connections(len(self._others), strangers=Limits().unfinished)
        passed = 0.0 if past is None else past.at
        switch = Switch(exchange, Limits(idle=SILENCE), passed=passed, grain=GRAIN)
        if past is not None:
            switch.hand_again(past.waiting.values())
        async with AsyncExitStack() as stack:
            where = await self._open(stack, switch, commits)
            door = self._hub if self._pages is None else self._hub or self._pages.gateway
            assert door is not None, "there is a way in"
            await stack.enter_async_context(operation.opened(switch, door, commits))
            self._listening(where)
            if AGGREGATOR not in exchange.departed:
                operation.progress.asking(machine)
                watching = functools.partial(self._close, switch)
                withdrawing = functools.partial(self._withdraw, switch)
                closes = attempt.charter.variant.survey.closes
                ending = operation.closing(self._early.set, closes=closes)
                async with ending, running(watching, withdrawing):
                    link = MemoryLink(switch, AGGREGATOR)
                    channel: Channel = link
                    if attempt.restored and self._hub is not None:
                        channel = Owing(link, switch, self._hub, attempt.go_on_without)
                    outside = attempt.outside(commits)
                    await run_machine(machine, channel, unsaid=unsaid, outside=outside)
                    link.close()
            if self._pages is not None:
                self._pages.gateway.close()
            with operation.lingering(LINGER):
                await commits.caught_up()
                await trio.sleep(_PARTING)
                if self._hub is not None:
                    await self._hub.emptied()
            if self._hub is not None:
                self._hub.give_up()
        return lost_in(exchange)

    async def _open(self, stack: AsyncExitStack, switch: Switch, commits: Commits) -> str:
        """Begin the attempt and accept answers; return the addresses in words."""
        attempt, pages = self._attempt, self._pages
        address = await self._open_to_parties(stack, switch, commits)
        if pages is None:
            attempt.begin()
            return address or ""
        # Until it is opened, the gateway asks clients to wait.
        page = await stack.enter_async_context(pages.serving.served(pages.gateway))
        self._go_on_without(linked(attempt.charter), switch)
        attempt.begin()
        first = attempt.recorder.checkpoint
        pages.gateway.open(switch, commits, None if first is None else first.note)
        return page if address is None else f"{page}, and {address} for parties"

    async def _open_to_parties(
        self, stack: AsyncExitStack, switch: Switch, commits: Commits
    ) -> str | None:
        """Accept parties over TLS, if any are expected; return the address."""
        attempt, past = self._attempt, self._attempt.past
        if self._parties is None:
            return None
        host, port = self._parties
        grace = max(seconds_left(attempt.charter) or 0.0, LINGER)
        opened = open_lasting(
            switch,
            attempt.member.identity,
            host=host,
            port=port,
            tls=tls_context(attempt.member.folder, server_context),
            trusted=attempt.operation.trusted,
            commits=commits,
            grace=grace,
        )
        hub, bound = await stack.enter_async_context(opened)
        if self._pages is not None:
            # One count for both ways in.
            gateway = self._pages.gateway
            gateway.refused, gateway.strangers = hub.refused, hub.strangers
        if past is not None:
            handed = {name: past.handed[name] for name in self._others}
            hub.expect(handed, within=grace)
        self._hub = hub
        return f"{host}:{bound}"

    def _has_answered(self, party: PartyId) -> bool:
        """Check whether a party's report is on record, with or without its head.

        A loss of power may come between the two.
        """
        exchange = self._attempt.exchange
        return exchange.accepted(party) > exchange.has_ended(party)

    def _go_on_without(self, parties: Sequence[PartyId], switch: Switch) -> None:
        """Record the parties that a restored record goes on without.

        Parties over TLS show their checkpoints when they reconnect. Pages do not, so the record
        names every place with a link and without a last message, before it goes on.

        Raises:
            UsageError: as ``Attempt.go_on_without``.
        """
        attempt, exchange = self._attempt, switch.exchange
        if attempt.restored and not attempt.recorder.ended:
            gone = exchange.departed
            missing = [
                name for name in parties if name not in gone and not exchange.has_ended(name)
            ]
            if missing:
                attempt.go_on_without(missing, switch.now)

    async def _close(self, switch: Switch) -> None:
        """Count out whoever has not answered, once the survey closes."""
        reason = await closed(self._attempt.charter, self._early)
        unused: Sequence[PartyId] = ()
        with suppress(OSError, UsageError):  # It was said.
            self._take_back(switch)
            unused = unused_spares(self._attempt.member.folder)
        spare = SPARE if reason == OUT_OF_TIME else f"{SPARE}; {reason}"
        # A report without its head is counted all the same.
        places = () if self._pages is None else linked(self._attempt.charter)
        count_out(switch, [name for name in places if self._has_answered(name)], STAYED_AWAY)
        count_out(switch, [name for name in unused if not self._has_answered(name)], spare)
        count_out(switch, places, reason)
        if self._hub is not None:
            self._go_on_without(self._hub.unmet, switch)
            await self._hub.joined(self._others, within=0.0, reason=reason)
            await trio.sleep(LINGER)
        count_out(switch, self._others, reason)

    async def _withdraw(self, switch: Switch) -> None:
        """Count out withdrawn places, until cancelled."""
        while True:
            try:
                self._take_back(switch)
            except (OSError, UsageError) as error:
                say(f"{error}; nobody is withdrawn until that is mended")
                await trio.sleep(_PATIENCE)
            await trio.sleep(_LOOK)

    def _take_back(self, switch: Switch) -> None:
        """Count out the places withdrawn since the last time."""
        found, departed = withdrawals(self._attempt.member.folder), switch.exchange.departed
        for each in found[len(self._taken_back) :]:
            if self._has_answered(each.place):
                say(f"{each.place} has answered, and is not withdrawn")
            elif each.place not in departed:
                reason = f"{WITHDRAWN}: {each.reason}" if each.reason else WITHDRAWN
                switch.detach(each.place, reason)
            answered = [*filter(self._has_answered, replaced_by(each, found))]
            if each.instead is None or not answered:
                continue
            if self._has_answered(each.instead):
                say(f"{each.instead} has answered, and {answered[0]} too: both count")
            elif each.instead not in departed:
                say(f"{each.instead} takes no answer, for {answered[0]} has answered")
                switch.detach(each.instead, f"{WITHDRAWN}: {answered[0]} has answered")
        self._taken_back = found
