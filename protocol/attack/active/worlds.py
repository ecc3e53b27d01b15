"""Whole sessions among real machines in which the aggregator keeps to a script, not to its role.

What it sends is really sent: the switch numbers, checks and records it as any other word, so the
record is one that a hostile aggregator can produce.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from protocol.attack.active.edits import Bodies, Grammar
from protocol.attack.active.script import HONEST, Move, Script
from protocol.audit.hearing import heads_of
from protocol.audit.ledger import Ledger, LedgerWriter
from protocol.audit.walk import Step
from protocol.crypto.randomness import Stream
from protocol.errors import ProtocolError, RemoteProtocolError
from protocol.messages import AGGREGATOR, RECORD, ROLE_STREAM, Envelope, Message, PartyId
from protocol.session.charter import Charter
from protocol.session.exchange import Exchange
from protocol.session.local import Loop
from protocol.session.machine import Machine
from protocol.session.roster import Identity
from protocol.session.variant import Variant
from protocol.simulation.setting import Setting, setting_of
from protocol.surveys.records import Records
from protocol.transcript.entries import Delivered, Refused, Sent

MOST_WORDS = 4096
"""The most envelopes that a hostile aggregator sends in a session."""

ALTERNATIVES = 3
"""The most other categories of an attribute that a record is compared with."""

NEIGHBOURS = 9
"""The most neighbouring records of a target."""


class Neighbour(NamedTuple):
    """A record that differs from the target's in one attribute.

    Args:
        attribute: its name.
        code: the other category.
        words: how the two differ.
    """

    attribute: str
    code: int
    words: str


class Study(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What is attacked.

    Args:
        variant: the variant.
        records: a respondent per party.
        target: whose record is at stake, from 0.
        seed: of the sessions.
        pairs: by neighbour, the attribute's place and the two categories that the worlds are of;
            by default as the target's record has them.
    """

    variant: Variant
    records: Records
    target: int
    seed: int
    pairs: tuple[tuple[int, int, int], ...] | None = None

    @functools.cached_property
    def setting(self) -> Setting:
        """The session with the true records."""
        return setting_of(self.variant, self.records, seed=self.seed)

    @property
    def charter(self) -> Charter:
        """The session's charter."""
        return self.setting.charter

    @property
    def party(self) -> PartyId:
        """The target's name."""
        return self.charter.roster.parties[self.target]

    @functools.cached_property
    def grammar(self) -> Grammar:
        """The kinds of the session."""
        return Grammar(self.charter.codec)

    @functools.cached_property
    def neighbours(self) -> tuple[Neighbour, ...]:
        """Records that differ from the target's in one attribute; every attribute has its turn."""
        survey = self.records.survey
        own = self.records.codes[self.target].astype(np.int64).tolist()
        turns: list[list[Neighbour]] = []
        for place, attribute in enumerate(survey.attributes):
            size = survey.sizes[place]
            others = [code for code in range(size) if code != own[place]]
            others.sort(key=lambda code: -abs(code - own[place]))
            names = attribute.categories
            turns.append(
                [
                    Neighbour(
                        attribute.name,
                        code,
                        f"{attribute.name}: {names[own[place]]} or {names[code]}",
                    )
                    for code in others[:ALTERNATIVES]
                ]
            )
        longest = max(map(len, turns), default=0)
        found = [turn[i] for i in range(longest) for turn in turns if i < len(turn)]
        return tuple(found[:NEIGHBOURS])

    def record(self, neighbour: Neighbour | None) -> Records:
        """The target's record, or a neighbouring one."""
        codes = self.records.codes[self.target : self.target + 1].copy()
        if neighbour is not None:
            codes[0, self.records.survey.axes((neighbour.attribute,))[0]] = neighbour.code
        return Records(self.records.survey, codes)

    def machine(self, records: Records, stream: Stream | None = None) -> Machine:
        """The target before the session, with these records."""
        setting, party = self.setting, self.party
        return Machine(
            setting.charter,
            party,
            stream or setting.streams.stream(party, ROLE_STREAM),
            records=records,
            identity=setting.identities[party],
        )

    @property
    def worlds(self) -> int:
        """How many worlds there are."""
        return 1 + 2 * len(self._pairs)

    def imagined(self, world: int) -> Setting:
        """The session of a world: 0 is the true one.

        In the worlds ``2 i + 1`` and ``2 i + 2`` nobody has the value that the target has in the
        attribute of the ``i``-th neighbour, or nobody has that neighbour's: whoever has it has the
        other one.
        """
        if world == 0:
            return self.setting
        axis, *pair = self._pairs[(world - 1) // 2]
        codes = self.records.codes.copy()
        gone, instead = pair if world % 2 else pair[::-1]
        codes[codes[:, axis] == gone, axis] = instead
        records = Records(self.records.survey, codes)
        return setting_of(self.variant, records, seed=self.seed)

    @property
    def _pairs(self) -> tuple[tuple[int, int, int], ...]:
        if self.pairs is not None:
            return self.pairs
        survey, own = self.records.survey, self.records.codes[self.target]
        places = [survey.axes((one.attribute,))[0] for one in self.neighbours]
        return tuple(
            (place, int(own[place]), one.code)
            for place, one in zip(places, self.neighbours, strict=True)
        )

    def exchanged(self, neighbour: Neighbour) -> Study | None:
        """The study in which the target and another party have exchanged their records.

        The other one has the neighbour's category; None if nobody has. Every sum is as it was.
        """
        if neighbour not in self._exchanges:
            self._exchanges[neighbour] = self._exchanged(neighbour)
        return self._exchanges[neighbour]

    @functools.cached_property
    def _exchanges(self) -> dict[Neighbour, Study | None]:
        return {}

    @functools.cached_property
    def libraries(self) -> dict[frozenset[int], Library]:
        """Libraries of some worlds that were made already."""
        return {}

    def _exchanged(self, neighbour: Neighbour) -> Study | None:
        codes = self.records.codes.copy()
        axis = self.records.survey.axes((neighbour.attribute,))[0]
        others = np.flatnonzero(codes[:, axis] == neighbour.code).tolist()
        if not others:
            return None
        codes[[self.target, others[0]]] = codes[[others[0], self.target]]
        records = Records(self.records.survey, codes)
        return msgspec.structs.replace(self, records=records, pairs=self._pairs)


class Library(msgspec.Struct, frozen=True):
    """What is said in the worlds of a study.

    Args:
        told: by world, what the aggregator says to whom: (kind, nth) and body, in order.
        said: of the true world, some bodies of every kind, whoever says it to whom; one that is
            made up where nobody does.
    """

    told: tuple[dict[PartyId, dict[tuple[str, int], bytes]], ...]
    said: dict[str, list[bytes]]

    def of(self, recipient: PartyId) -> BodiesOf:
        """What one recipient is told."""
        return BodiesOf(self, recipient)


class BodiesOf(Bodies):
    """What is taken for one recipient."""

    def __init__(self, library: Library, recipient: PartyId) -> None:
        self._library = library
        self._recipient = recipient

    def body(self, world: int, kind: str, nth: int) -> bytes | None:
        if not 0 <= world < len(self._library.told):
            return None
        own = self._library.told[world].get(self._recipient, {})
        return own.get((kind, nth))

    def any_body(self, world: int, kind: str, nth: int) -> bytes | None:
        """The same, or what somebody says of this kind."""
        own = self.body(world, kind, nth)
        if own is not None:
            return own
        others = self._library.said.get(kind, [])
        return others[nth] if 0 <= nth < len(others) else None


EXAMPLES = 3
"""How many bodies of every kind a library keeps, whoever said them."""


def library_of(study: Study, worlds: Iterable[int] | None = None) -> Library:
    """Play the honest protocol in every world, or in these; the true one is always among them."""
    told: list[dict[PartyId, dict[tuple[str, int], bytes]]] = []
    said: dict[str, list[bytes]] = {}
    for world in range(study.worlds):
        if worlds is not None and world not in (0, *worlds):
            told.append({})
            continue
        played = play(study, HONEST, Library((), {}), setting=study.imagined(world))
        heard: dict[PartyId, dict[tuple[str, int], bytes]] = {}
        counts: Counter[tuple[PartyId, str]] = Counter()
        for envelope in played.sent:
            if world == 0:
                some = said.setdefault(envelope.kind, [])
                if len(some) < EXAMPLES and envelope.body not in some:
                    some.append(envelope.body)
            if envelope.sender == AGGREGATOR and envelope.recipient != RECORD:
                to = envelope.recipient, envelope.kind
                heard.setdefault(to[0], {})[to[1], counts[to]] = envelope.body
                counts[to] += 1
        told.append(heard)
    for kind in study.grammar.kinds:
        body = study.grammar.made_up(kind)
        if kind not in said and body is not None:
            said[kind] = [body]
    return Library(tuple(told), said)


class Heard(NamedTuple):
    """Something that happened to the target's machine."""

    what: Literal["start", "receive", "expire", "abandon"]
    now: float
    envelope: Envelope | None = None


class Watched(Machine):
    """A machine that notes all that happens to it, so that another can be put in its place.

    Attributes:
        heard: in order.
    """

    heard: list[Heard]

    def start(self, now: float) -> None:
        self.heard = [Heard("start", now)]
        super().start(now)

    def receive(self, envelope: Envelope, now: float) -> None:
        self.heard.append(Heard("receive", now, envelope))
        super().receive(envelope, now)

    def expire(self, now: float) -> None:
        self.heard.append(Heard("expire", now))
        super().expire(now)

    def abandon(self, reason: str) -> None:
        self.heard.append(Heard("abandon", 0.0))
        super().abandon(reason)


class _Held(NamedTuple):
    left: int
    kind: str
    body: bytes


class Hostile(Machine):
    """The aggregator's machine: it runs the honest role, and says what a script makes of it."""

    def __init__(
        self,
        charter: Charter,
        stream: Stream,
        identity: Identity,
        *,
        script: Script,
        study: Study,
        library: Library,
    ) -> None:
        super().__init__(charter, AGGREGATOR, stream, identity=identity)
        self._again = charter, stream, identity
        self._script = script
        self._study = study
        self._library = library
        self._counts: Counter[tuple[PartyId, str]] = Counter()
        self._held: dict[PartyId, list[_Held]] = {}
        self._number = 0
        self._restarts = 0
        self._now = 0.0

    def start(self, now: float) -> None:
        self._now = now
        super().start(now)

    def receive(self, envelope: Envelope, now: float) -> None:
        self._now = now
        super().receive(envelope, now)

    def expire(self, now: float) -> None:
        self._now = now
        super().expire(now)

    def take(self) -> list[Envelope]:
        """What is said instead of what the role says."""
        sent: list[Envelope] = []
        while True:
            restart = False
            for envelope in super().take():
                restart |= self._say(sent, envelope)
            if not restart:
                break
            self._begin_anew()
        if self.finished:
            for recipient in list(self._held):
                self._release(sent, recipient, everything=True)
        return sent

    def _say(self, sent: list[Envelope], envelope: Envelope) -> bool:
        """Send what the script makes of one envelope; whether the role is to begin anew."""
        recipient, kind = envelope.recipient, envelope.kind
        if recipient == RECORD:
            self._send(sent, recipient, kind, envelope.body)
            return False
        nth = self._counts[recipient, kind]
        self._counts[recipient, kind] += 1
        moves = [move for move in self._script.moves if self._is_about(move, recipient, kind, nth)]
        said = [(kind, envelope.body)]
        before: list[tuple[str, bytes]] = []
        after: list[tuple[str, bytes]] = []
        for move in moves:
            edited = self._edited(recipient, kind, envelope.body, move, nth)
            side = before if move.before else after
            match move.does:
                case "rewrite":
                    said = [
                        (kind, self._edited(recipient, kind, body, move, nth)) for _, body in said
                    ]
                case "drop":
                    said = []
                case "repeat":
                    side.append((kind, edited))
                case "hold":
                    held = [_Held(move.wait, kind, edited) for _ in said]
                    self._held.setdefault(recipient, []).extend(held)
                    said = []
                case "insert" if move.says is not None:
                    side += self._inserted(recipient, move)
        for kind_, body in (*before, *said, *after):
            self._send(sent, recipient, kind_, body)
        self._release(sent, recipient)
        return any(move.does == "restart" for move in moves)

    def _is_about(self, move: Move, recipient: PartyId, kind: str, nth: int) -> bool:
        if (move.of, move.nth) != (kind, nth):
            return False
        return move.to == "all" or (move.to == "target") == (recipient == self._study.party)

    def _edited(self, recipient: PartyId, kind: str, body: bytes, move: Move, nth: int) -> bytes:
        bodies = self._library.of(recipient)
        return self._study.grammar.edited(kind, body, move.edits, bodies, nth=nth)

    def _inserted(self, recipient: PartyId, move: Move) -> list[tuple[str, bytes]]:
        source, bodies = move.says, self._library.of(recipient)
        assert source is not None
        body = bodies.any_body(source.world, source.kind, source.nth)
        if body is None:
            return []
        edited = self._study.grammar.edited(source.kind, body, move.edits, bodies, nth=source.nth)
        return [(source.kind, edited)]

    def _release(
        self, sent: list[Envelope], recipient: PartyId, *, everything: bool = False
    ) -> None:
        """Send what has been held back for long enough."""
        kept = []
        for held in self._held.pop(recipient, []):
            if everything or held.left < 1:
                self._send(sent, recipient, held.kind, held.body)
            else:
                kept.append(held._replace(left=held.left - 1))
        if kept:
            self._held[recipient] = kept

    def _send(self, sent: list[Envelope], recipient: PartyId, kind: str, body: bytes) -> None:
        if self._number < MOST_WORDS:
            session = self.charter.session
            sent.append(Envelope(session, AGGREGATOR, recipient, self._number, kind, body))
            self._number += 1

    def _begin_anew(self) -> None:
        """The role from its start, with the same randomness, in the same session."""
        self._restarts += 1
        if self._restarts > 1 or self.finished:
            return
        charter, stream, identity = self._again
        Machine.__init__(self, charter, AGGREGATOR, stream, identity=identity)
        super().start(self._now)


class _Steps:
    """Notes what passes the exchange, for the ledger."""

    def __init__(self) -> None:
        self.sent_envelopes: list[Envelope] = []
        self.passed: list[tuple[bool, Envelope]] = []
        self.refusals: list[str] = []

    def sent(self, envelope: Envelope, *, now: float, encoded: bytes | None = None) -> None:
        self.sent_envelopes.append(envelope)
        self.passed.append((False, envelope))

    def delivered(self, envelope: Envelope, *, now: float, repeat: bool = False) -> None:
        self.passed.append((True, envelope))

    def refused(self, link: str, reason: str, excerpt: bytes, *, now: float) -> None:
        self.refusals.append(link)

    def departed(self, party: PartyId, reason: str, *, now: float) -> None:
        """A departure tells the ledger nothing."""

    def fault_of_head(self, envelope: Envelope) -> str | None:
        return None


class Played(NamedTuple):
    """A session that was played.

    Args:
        charter: the session's.
        sent: all that was sent, in order.
        passed: what was sent (False) or delivered (True), in order.
        refused: the links of which something was refused.
        heard: what happened to the target.
        target: its machine afterwards.
        endings: of the parties.
        failure: why the aggregator's role failed; None if it did not.
    """

    charter: Charter
    sent: list[Envelope]
    passed: list[tuple[bool, Envelope]]
    refused: list[str]
    heard: tuple[Heard, ...]
    target: Machine
    endings: Mapping[PartyId, str]
    failure: ProtocolError | None

    def ledger(self) -> Ledger:
        """What the aggregator has learned, by the record of the session."""
        return ledger_of(self.charter, self.passed, self.refused)


def play(
    study: Study,
    script: Script,
    library: Library,
    *,
    setting: Setting | None = None,
    records: Records | None = None,
    stream: Stream | None = None,
) -> Played:
    """Play a script.

    Args:
        setting: the session; by default that with the true records.
        records: what the target holds instead.
        stream: the target's randomness instead.
    """
    setting = setting or study.setting
    charter, party = setting.charter, study.party
    records = setting.holdings[party] if records is None else records
    steps = _Steps()
    machines: dict[PartyId, Machine] = {}
    for name, _ in charter.roster.members:
        own, identity = setting.streams.stream(name, ROLE_STREAM), setting.identities[name]
        if name == AGGREGATOR:
            machines[name] = Hostile(
                charter, own, identity, script=script, study=study, library=library
            )
            continue
        held = records if name == party else setting.holdings[name]
        own = (stream or own) if name == party else own
        made = Watched if name == party else Machine
        machines[name] = made(charter, name, own, records=held, identity=identity)
    failure, endings = None, dict[PartyId, str]()
    try:
        Loop(Exchange(charter, recorder=steps), machines).run(endings)
    except ProtocolError as error:
        failure = error
    target = machines[party]
    assert isinstance(target, Watched)
    return Played(
        charter,
        steps.sent_envelopes,
        steps.passed,
        steps.refusals,
        tuple(target.heard),
        target,
        endings,
        failure,
    )


def ledger_of(charter: Charter, passed: list[tuple[bool, Envelope]], refused: list[str]) -> Ledger:
    """The aggregator's ledger of what has passed, as the audit makes it."""
    entries: list[Step] = []
    for number, (delivered, envelope) in enumerate(passed):
        message, malformed = _decoded(charter, envelope)
        if delivered:
            entry: Sent | Delivered = Delivered(
                at=0,
                sender=envelope.sender,
                recipient=envelope.recipient,
                seq=envelope.seq,
                repeat=False,
            )
        else:
            entry = Sent(at=0, envelope=b"")
        entries.append(Step(number, entry, envelope, message, malformed))
    writer = LedgerWriter(charter)
    writer.start(heads_of(entries))
    for step in entries:
        writer.add(step)
    for link in refused:
        refusal = Refused(at=0, link=link, reason="", excerpt=b"")
        writer.add(Step(len(entries), refusal))
    return writer.ledger(AGGREGATOR)


def _decoded(charter: Charter, envelope: Envelope) -> tuple[Message | None, str]:
    try:
        return charter.codec.decode(envelope.kind, envelope.body), ""
    except RemoteProtocolError as error:
        return None, str(error)
