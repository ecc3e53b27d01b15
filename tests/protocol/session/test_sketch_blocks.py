"""RRBA block by block, sketched to see whether the kernel carries it unchanged."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from protocol.accounting.events import Derived, Plain, PrivacyEvent, Randomized
from protocol.errors import PrivacyError
from protocol.messages import AGGREGATOR, Envelope, Message, PartyId
from protocol.randomizers import KeepUniform
from protocol.session.fates import PASS, Fate, Verdict
from protocol.session.roles import Me, Seen
from protocol.session.variant import Variant
from protocol.surveys.records import Records
from protocol.transcript.entries import Delivered, Sent
from protocol.wire.arrays import Array, ArraySpec, Bounds
from protocol.wire.codec import Kind, decode_envelope
from tests.protocol.sessions import (
    SURVEY,
    answers,
    charter_of,
    envelope,
    everywhere,
    holdings_of,
    machine_of,
)

ONE, TWO, THREE = (PartyId(f"party-{i}") for i in (1, 2, 3))


class Table(Message, frozen=True):
    """The question to one block. It comes to each party once, so it needs no round."""

    block: int
    randomizer: KeepUniform


class Reply(Message, frozen=True):
    """A randomized answer under the table of block ``round``."""

    round: int
    codes: Array


class Tally(Message, frozen=True):
    """The result: by block, the keep probability of its table, and how many said yes."""

    thresholds: tuple[int, ...]
    answered: Array
    yes: Array


class BlockByBlock(Variant, frozen=True):
    """Each block's table is chosen by what the blocks before it have said."""

    name = "sketch-blocks"

    size: int = 4

    def blocks(self, parties: Sequence[PartyId]) -> Iterator[tuple[PartyId, ...]]:
        for start in range(0, len(parties), self.size):
            yield tuple(parties[start : start + self.size])

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        per_block = ArraySpec(dtype="u4", shape=(Bounds(1, parties),))
        return (
            Kind(Table),
            Kind(Reply, codes=ArraySpec(dtype="u1", shape=(1,), high=2)),
            Kind(Tally, answered=per_block, yes=per_block),
        )

    async def party(self, me: Me, records: Records) -> None:
        table = await me.receive(Table, AGGREGATOR)
        if table.randomizer.size != 2 or table.randomizer.keep > 0.8:
            raise PrivacyError("asked under a table that was not agreed to")
        codes = table.randomizer.randomize(records.codes[:, 0], me.stream)
        await me.send(AGGREGATOR, Reply(table.block, codes))

    async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Tally:
        thresholds, answered, yes = [], [], []
        p = 0.5
        for block, members in enumerate(self.blocks(parties)):
            table = Table(block, KeepUniform.with_keep(2, p=p))
            await me.broadcast(members, table)
            replies = await me.gather(Reply, members, round=block, within=self.patience)
            thresholds.append(table.randomizer.threshold)
            answered.append(len(replies))
            yes.append(sum(int(reply.codes[0]) for reply in replies.values()))
            p = 0.3 + 0.5 * sum(yes) / max(1, sum(answered))
        return Tally(tuple(thresholds), np.array(answered, np.uint32), np.array(yes, np.uint32))

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        match message:
            case Table() | Tally():
                return Derived()
            case Reply(block):
                table = seen.get(Table, AGGREGATOR)
                if table is not None and (table.block, table.randomizer.size) == (block, 2):
                    return Randomized(table.randomizer, self.survey.names[:1])
        return Plain(self.survey.names)


def test_blocks_are_asked_one_after_the_other() -> None:
    charter = charter_of(BlockByBlock(survey=SURVEY), parties=11)
    outcome = everywhere(charter, holdings_of(charter, answers(SURVEY, 11)))
    result = outcome.published
    assert isinstance(result, Tally)
    assert result.answered.tolist() == [4, 4, 3]
    assert len(set(result.thresholds)) == 3
    assert outcome.follows()
    # No question to a block is sent before the last answer of the block before has been delivered.
    block_of = {name: i // 4 for i, name in enumerate(charter.roster.parties)}
    answered = [0, 0, 0]
    for entry in outcome.entries:
        if isinstance(entry, Sent):
            item = decode_envelope(entry.envelope)
            if item.kind == "Table" and block_of[item.recipient]:
                assert answered[block_of[item.recipient] - 1] == 4
        elif isinstance(entry, Delivered) and entry.recipient == AGGREGATOR:
            answered[block_of[entry.sender]] += 1
    accounts = outcome.ledger(AGGREGATOR).accounts
    for name, account in accounts.items():
        odds = result.thresholds[block_of[name]] / (2**64 - result.thresholds[block_of[name]])
        assert account.loss.record == pytest.approx(math.log1p(2 * odds), abs=1e-9)


def test_a_late_reply_is_skipped_and_changes_no_later_table() -> None:
    def late(item: Envelope) -> Fate:
        return Fate(delay=100.0) if (item.sender, item.kind) == (TWO, "Reply") else PASS

    def lost(item: Envelope) -> Fate:
        verdict = Fate(Verdict.DROP)
        return verdict if (item.sender, item.kind) == (TWO, "Reply") else PASS

    charter = charter_of(BlockByBlock(survey=SURVEY, patience=60.0), parties=11)
    holdings = holdings_of(charter, answers(SURVEY, 11))
    slow = everywhere(charter, holdings, fate=late)
    gone = everywhere(charter, holdings, fate=lost)
    assert isinstance(slow.published, Tally)
    assert slow.published.answered.tolist() == [3, 4, 3]
    assert slow.digest == gone.digest
    assert slow.follows()


def test_a_reply_that_is_late_for_its_block_is_not_counted_in_the_next() -> None:
    charter = charter_of(BlockByBlock(survey=SURVEY, size=1, patience=10.0), parties=2)
    machine = machine_of(charter, AGGREGATOR)
    machine.start(0.0)
    machine.expire(10.0)
    one, no = np.ones(1, np.uint8), np.zeros(1, np.uint8)
    machine.receive(envelope(charter, ONE, 0, Reply(0, one)), 11.0)
    machine.receive(envelope(charter, ONE, 1, Reply(1, one)), 11.0)
    assert not machine.finished
    machine.receive(envelope(charter, TWO, 0, Reply(1, no)), 12.0)
    assert isinstance(machine.result, Tally)
    assert machine.result.answered.tolist() == [0, 1]
    assert machine.result.yes.tolist() == [0, 0]
    assert [kept.sender for kept in machine.kept] == [ONE, ONE]
