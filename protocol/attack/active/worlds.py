"""Whole sessions of real machines, in which some members without records keep to a script.

The switch numbers, checks and records their messages as any others, so the record is one that they
can produce.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np

from protocol.attack.active.edits import Grammar
from protocol.attack.active.script import HONEST, Move, Script
from protocol.attack.active.target import Heard, Traced, Watched
from protocol.audit.coalition.coalition import Coalition
from protocol.crypto.randomness import SECRET_BYTES, Stream
from protocol.errors import ProtocolError
from protocol.messages import (
    AGGREGATOR,
    RECORD,
    ROLE_STREAM,
    Envelope,
    Head,
    PartyId,
)
from protocol.session.charter import Charter
from protocol.session.exchange import Exchange
from protocol.session.local import Loop, Member
from protocol.session.machine import Machine
from protocol.session.variant import Variant
from protocol.sharing.meeting import NONCE
from protocol.simulation.setting import Setting, make_setting
from protocol.surveys.records import Records

MOST_WORDS = 4096
"""The most envelopes that a hostile member sends in a session."""

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


class _Redrawn(Stream):
    """Other randomness of the target, but for its nonce in the graph of a secure sum.

    It sends the nonce before all else, and the graph that it receives fits no other one.
    """

    __slots__ = ("_own",)

    def __init__(self, drawn: Stream, own: Stream) -> None:
        super().__init__(drawn.derive("redrawn").bytes(SECRET_BYTES))
        self._own = own

    def derive(self, purpose: str) -> Stream:
        """An independent child stream; for the nonce that of the session."""
        if purpose.startswith(f"{NONCE} "):
            return self._own.derive(purpose)
        return super().derive(purpose)


class Study(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Variant, records and members of an active attack.

    Args:
        variant: the variant.
        records: a respondent per party.
        target: place of the party under attack.
        seed: of the sessions.
        hostile: members that keep to a script, in the order of the roster, without secrets from
            each other.
        pairs: for each neighbour, the attribute's place and the two categories of its worlds; by
            default by the target's record.
    """

    variant: Variant
    records: Records
    target: int
    seed: int
    hostile: tuple[PartyId, ...] = (AGGREGATOR,)
    pairs: tuple[tuple[int, int, int], ...] | None = None

    @functools.cached_property
    def setting(self) -> Setting:
        """The session with the true records."""
        return make_setting(self.variant, self.records, seed=self.seed)

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
        return Grammar(self.charter)

    @functools.cached_property
    def coalition(self) -> Coalition:
        """The hostile members together."""
        return Coalition(self.hostile)

    def content(self, envelope: Envelope) -> bytes:
        """The content of an envelope for its recipient: its body, or that of its box."""
        if envelope.kind not in self.grammar.sealed:
            return envelope.body
        return self.charter.codec.content(self.setting.message(envelope))

    def read(self, envelope: Envelope) -> bytes | None:
        """The content of an envelope for the hostile members; None if they do not see it."""
        if not self.coalition.hears(envelope.sender, envelope.recipient):
            return None
        if envelope.kind not in self.grammar.sealed:
            return envelope.body
        return self.setting.legible(envelope, self.hostile)

    @functools.cached_property
    def neighbours(self) -> tuple[Neighbour, ...]:
        """Records that differ from the target's in one attribute, the attributes taking turns."""
        survey = self.records.survey
        own = self.records.codes[self.target].astype(np.int64).tolist()
        turns: list[list[Neighbour]] = []
        for place, attribute in enumerate(survey.attributes):
            size = survey.sizes[place]
            others = [code for code in range(size) if code != own[place]]
            others.sort(key=lambda code: -abs(code - own[place]))
            name, categories = attribute.name, attribute.categories
            turn = []
            for code in others[:ALTERNATIVES]:
                words = f"{name}: {categories[own[place]]} or {categories[code]}"
                turn.append(Neighbour(name, code, words))
            turns.append(turn)
        longest = max(map(len, turns), default=0)
        found = [turn[i] for i in range(longest) for turn in turns if i < len(turn)]
        return tuple(found[:NEIGHBOURS])

    def record(self, neighbour: Neighbour | None) -> Records:
        """The target's record, or a neighbouring one."""
        codes = self.records.codes[self.target : self.target + 1].copy()
        if neighbour is not None:
            codes[0, self.records.survey.axes((neighbour.attribute,))[0]] = neighbour.code
        return Records(self.records.survey, codes)

    @property
    def own_stream(self) -> Stream:
        """The target's randomness in the session."""
        return self.setting.streams.stream(self.party, ROLE_STREAM)

    def redrawn(self, drawn: Stream) -> Stream:
        """Other randomness for the target, with which it still fits into the session's graph."""
        return _Redrawn(drawn, self.own_stream)

    def machine(self, records: Records, stream: Stream | None = None) -> Traced:
        """The target before the session, with these records."""
        setting, party = self.setting, self.party
        machine = Traced(
            setting.charter,
            party,
            stream or self.own_stream,
            records=records,
            identity=setting.identities[party],
        )
        machine.read = self.read
        return machine

    @property
    def worlds(self) -> int:
        """Number of worlds."""
        return 1 + 2 * len(self._pairs)

    def imagined(self, world: int) -> Setting:
        """The session of a world: 0 is the true one.

        In the worlds ``2 i + 1`` and ``2 i + 2`` one of two values is replaced by the other in all
        records: that of the target in the attribute of the ``i``-th neighbour, or the neighbour's.
        """
        if world == 0:
            return self.setting
        axis, *pair = self._pairs[(world - 1) // 2]
        codes = self.records.codes.copy()
        gone, instead = pair if world % 2 else pair[::-1]
        codes[codes[:, axis] == gone, axis] = instead
        records = Records(self.records.survey, codes)
        return make_setting(self.variant, records, seed=self.seed)

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
        """The study with exchanged records of the target and a party with the neighbour's category.

        None if no party has it. Every sum stays the same.
        """
        if neighbour not in self._exchanges:
            self._exchanges[neighbour] = self._exchanged(neighbour)
        return self._exchanges[neighbour]

    @functools.cached_property
    def _exchanges(self) -> dict[Neighbour, Study | None]:
        return {}

    @functools.cached_property
    def libraries(self) -> dict[frozenset[int], Library]:
        """Libraries made so far, by their worlds."""
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


Link: TypeAlias = tuple[PartyId, PartyId]
"""A sender and a recipient."""


class Library(msgspec.Struct, frozen=True):
    """Messages in the worlds of a study.

    Args:
        told: by world and link from a hostile member, the bodies of messages by kind and number, in
            order. The body of a sealed kind is the content of its box.
        said: some bodies of every kind in the true world, from any member; a made-up one if there
            is none.
    """

    told: tuple[dict[Link, dict[tuple[str, int], bytes]], ...]
    said: dict[str, list[bytes]]

    def body(self, link: Link, world: int, kind: str, nth: int) -> bytes | None:
        """The body of a message on a link in a world; None if there is none."""
        if not 0 <= world < len(self.told):
            return None
        return self.told[world].get(link, {}).get((kind, nth))

    def any_body(self, link: Link, world: int, kind: str, nth: int) -> bytes | None:
        """The body of a message on a link, or else of one of this kind from any member."""
        own = self.body(link, world, kind, nth)
        others = self.said.get(kind, [])
        return others[nth] if own is None and 0 <= nth < len(others) else own


EXAMPLES = 3
"""The most bodies of every kind in a library, from any member."""


def make_library(study: Study, worlds: Iterable[int] | None = None) -> Library:
    """Play the honest protocol in every world, or in these; the true one is always among them."""
    told: list[dict[Link, dict[tuple[str, int], bytes]]] = []
    said: dict[str, list[bytes]] = {}
    for world in range(study.worlds):
        if worlds is not None and world not in (0, *worlds):
            told.append({})
            continue
        played = play(study, HONEST, Library((), {}), setting=study.imagined(world))
        heard: dict[Link, dict[tuple[str, int], bytes]] = {}
        counts: Counter[tuple[Link, str]] = Counter()
        for envelope in played.sent:
            kind, body = envelope.kind, study.content(envelope)
            if world == 0:
                some = said.setdefault(kind, [])
                if len(some) < EXAMPLES and body not in some:
                    some.append(body)
            link = envelope.sender, envelope.recipient
            if link[0] in study.hostile and link[1] not in (RECORD, *study.hostile):
                heard.setdefault(link, {})[kind, counts[link, kind]] = body
                counts[link, kind] += 1
        told.append(heard)
    for kind in study.charter.codec.names:
        made_up = study.grammar.made_up(kind)
        if kind not in said and made_up is not None:
            said[kind] = [made_up]
    return Library(tuple(told), said)


class _Held(NamedTuple):
    left: int
    kind: str
    body: bytes


class Hostile(Machine):
    """A hostile member: its machine runs the honest role, and a script changes its messages.

    Args:
        script: the departures from the role.
        study, library: of the attack, and the messages of worlds.
    """

    def __init__(
        self, me: PartyId, setting: Setting, *, script: Script, study: Study, library: Library
    ) -> None:
        stream, own = setting.streams.stream(me, ROLE_STREAM), setting.identities[me]
        self._anew = functools.partial(super().__init__, setting.charter, me, stream, identity=own)
        self._anew()
        self._script = script
        self._study = study
        self._library = library
        self._counts: Counter[tuple[PartyId, str]] = Counter()
        self._held: dict[PartyId, list[_Held]] = {}
        self._number = 0
        self._restarts = 0
        self._now = 0.0

    def _resume(self, outcome: object, now: float) -> None:
        self._now = now
        super()._resume(outcome, now)

    def take(self) -> list[Envelope]:
        """Messages sent in place of the role's."""
        sent: list[Envelope] = []
        if not self._counts:
            for name, _ in self.charter.roster.members:
                self._say(sent, name, "", b"")
        while True:
            restart = False
            for envelope in super().take():
                content = self._study.content(envelope)
                restart |= self._say(sent, envelope.recipient, envelope.kind, content)
            if not restart:
                break
            self._begin_anew()
        if self.finished:
            for recipient in list(self._held):
                self._release(sent, recipient, everything=True)
        return sent

    def _say(self, sent: list[Envelope], recipient: PartyId, kind: str, content: bytes) -> bool:
        """Send the script's version of one message, or of the start; True to begin anew."""
        if kind == Head.kind():  # It comes after all that is held back.
            self._held[recipient] = [_Held(0, kind, content)]
            return False
        if recipient in (RECORD, *self._study.hostile):
            if kind:
                self._send(sent, recipient, kind, content)
            return False
        nth = self._counts[recipient, kind]
        self._counts[recipient, kind] += 1
        moves = [move for move in self._script.moves if self._is_about(move, recipient, kind, nth)]
        said = [(kind, content)] if kind else []
        before: list[tuple[str, bytes]] = []
        after: list[tuple[str, bytes]] = []
        for move in moves:
            edited = self._edited(recipient, kind, content, move, nth)
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
        if (move.of, move.nth) != (kind, nth) or move.by not in ("", self.me):
            return False
        return move.to == "all" or (move.to == "target") == (recipient == self._study.party)

    def _edited(self, recipient: PartyId, kind: str, body: bytes, move: Move, nth: int) -> bytes:
        bodies = functools.partial(self._library.body, (self.me, recipient))
        return self._study.grammar.edited(kind, body, move.edits, bodies, nth=nth)

    def _inserted(self, recipient: PartyId, move: Move) -> list[tuple[str, bytes]]:
        source, link = move.says, (self.me, recipient)
        assert source is not None
        body = self._library.any_body(link, source.world, source.kind, source.nth)
        if body is None:
            return []
        return [(source.kind, self._edited(recipient, source.kind, body, move, source.nth))]

    def _release(
        self, sent: list[Envelope], recipient: PartyId, *, everything: bool = False
    ) -> None:
        """Send messages that were held back for long enough."""
        kept = []
        for held in self._held.pop(recipient, []):
            if everything or held.left < 1:
                self._send(sent, recipient, held.kind, held.body)
            else:
                kept.append(held._replace(left=held.left - 1))
        if kept:
            self._held[recipient] = kept

    def _send(self, sent: list[Envelope], recipient: PartyId, kind: str, content: bytes) -> None:
        if self._number < MOST_WORDS:
            sent += self.charter.codec.enclose(
                self.charter.codec.read(kind, content),
                session=self.charter.session,
                sender=self.me,
                recipients=(recipient,),
                seq=self._number,
                seal=self.boxes.seal,
            )
            self._number += 1

    def _begin_anew(self) -> None:
        """Restart the role in the same session, with the same randomness."""
        self._restarts += 1
        if self._restarts > 1 or self.finished:
            return
        self._anew()
        super().start(self._now)


class _Sent:
    """Notes what the exchange accepts."""

    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []

    def sent(self, envelope: Envelope, *, now: float, encoded: bytes | None = None) -> None:
        self.envelopes.append(envelope)

    def delivered(self, envelope: Envelope, *, now: float, repeat: bool = False) -> None:
        """Ignore a delivery: the envelope was noted when it was sent."""

    def refused(self, link: str, reason: str, excerpt: bytes, *, now: float) -> None:
        """Ignore a refusal: nothing was sent."""

    def departed(self, party: PartyId, reason: str, *, now: float) -> None:
        """Ignore a departure, which sends nothing."""

    def hindered(self, envelope: Envelope, *, now: float) -> None:
        """Ignore a hindrance: the envelope was noted when it was sent."""

    def fault_of_head(self, envelope: Envelope) -> str | None:
        return None


class Played(NamedTuple):
    """A session that was played.

    Args:
        sent: all that was sent, in order.
        heard: what happened to the target.
        failure: the error of the aggregator's role; None without one.
    """

    sent: list[Envelope]
    heard: tuple[Heard, ...]
    failure: ProtocolError | None


def play(
    study: Study,
    script: Script,
    library: Library,
    *,
    setting: Setting | None = None,
    stream: Stream | None = None,
) -> Played:
    """Play a script.

    Args:
        setting: the session; by default that with the true records.
        stream: the target's randomness instead.
    """
    setting = setting or study.setting
    charter, party = setting.charter, study.party
    target: Watched | None = None
    members: dict[PartyId, Member] = {}
    for name, _ in charter.roster.members:
        own, identity = setting.streams.stream(name, ROLE_STREAM), setting.identities[name]
        held = setting.holdings.get(name)
        if name in study.hostile:
            members[name] = Hostile(name, setting, script=script, study=study, library=library)
        elif name == party:
            target = Watched(charter, name, stream or own, records=held, identity=identity)
            members[name] = target
        else:
            members[name] = Machine(charter, name, own, records=held, identity=identity)
    assert target is not None
    failure, sent = None, _Sent()
    try:
        Loop(Exchange(charter, recorder=sent), members).run({})
    except ProtocolError as error:
        failure = error
    return Played(sent.envelopes, tuple(target.heard), failure)
