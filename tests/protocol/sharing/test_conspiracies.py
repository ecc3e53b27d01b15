"""Parties that conspire with the aggregator: as many as a sum withstands, and one more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from protocol import AGGREGATOR, Me, Message, Noise, PartyId, QuorumError, SecureSum
from protocol.crypto.sealing import Edge, edge_key
from protocol.crypto.shamir import reconstruct
from protocol.messages import ROLE_STREAM, Envelope
from protocol.session.machine import Machine
from protocol.sharing import agreement, sparse
from protocol.sharing.graph import Degree
from protocol.sharing.masks import encrypt_seeds, expand_mask, modulus_bits, pair_mask
from protocol.sharing.meeting import Hood
from protocol.sharing.messages import (
    REVEALED,
    SECRET_BYTES,
    Deal,
    Graph,
    Survivors,
    Tagged,
    Tags,
    Unmask,
    Upload,
)
from protocol.sharing.sparse import survivors_digest
from protocol.transcript.entries import Entry, Sent
from protocol.variants import SecureSumVariant
from protocol.wire.codec import encode_envelope
from tests.protocol.sessions import (
    STREAMS,
    SURVEY,
    answers,
    charter_of,
    holdings_of,
    identities_of,
    rehearsed,
)
from tests.protocol.sharing.test_sums import counted, exact, vanishing
from tests.protocol.sharing.test_sums_attacks import graph_context
from tests.tiers import thinned

HERE, GONE = 0, 1
"""The two camps: the victim has uploaded, or it has not."""


class Conspiracy:
    """The aggregator and the last c parties, who want the counts of the first.

    All is carried as it should be until everybody has uploaded. Then one camp is told that all
    have, and the other that the victim has not; colluders confirm both.

    Args:
        parties: n.
        colluders: c.
        sums: how sums are made.
    """

    def __init__(self, parties: int, colluders: int, sums: SecureSum | None = None) -> None:
        variant = SecureSumVariant(survey=SURVEY, sums=sums or SecureSum())
        self.charter = charter_of(variant, parties)
        self.holdings = holdings_of(self.charter, answers(SURVEY, parties))
        self.degree = variant.sums.degree(parties)
        self.identities = identities_of(self.charter)
        names = self.charter.roster.parties
        self.victim, self.honest = names[0], names[: parties - colluders]
        self.corrupt = names[parties - colluders :]
        # A colluder is in both camps: it is two machines that draw the same.
        self.machines = {
            (name, camp): self._machine(name)
            for name in names
            for camp in ((HERE, GONE) if name in self.corrupt else (HERE,))
        }
        self.graphs: dict[PartyId, Graph] = {}
        self.deals: dict[PartyId, Deal] = {}
        self.uploads: dict[PartyId, Upload] = {}
        self.said: list[Entry] = []
        """What passed, of which no colluder's second self has said anything."""
        self._seq = 10_000
        self._upload()

    def _machine(self, name: PartyId) -> Machine:
        return Machine(
            self.charter,
            name,
            STREAMS.stream(name, ROLE_STREAM),
            records=self.holdings.get(name),
            identity=self.identities[name],
        )

    def _upload(self) -> None:
        aggregator = self._machine(AGGREGATOR)
        aggregator.start(0.0)
        for machine in self.machines.values():
            machine.start(0.0)
        under_way = list(aggregator.take())
        while len(self.uploads) < len(self.holdings):
            for item in under_way:
                self._note(item)
                if item.kind == Graph.kind():
                    self.graphs[item.recipient] = self._opened(item)
                for camp in (HERE, GONE):
                    if (item.recipient, camp) in self.machines:
                        self.machines[item.recipient, camp].receive(item, 0.0)
            for (_, camp), machine in self.machines.items():
                for item in machine.take():
                    if camp == GONE:
                        continue
                    self._note(item)
                    aggregator.receive(item, 0.0)
                    if item.kind == Deal.kind():
                        self.deals[item.sender] = self._opened(item)
                    elif item.kind == Upload.kind():
                        self.uploads[item.sender] = self._opened(item)
            under_way = list(aggregator.take())

    def _opened(self, item: Envelope) -> Message:
        return self.charter.codec.decode(item.kind, item.body)

    def _tell(self, name: PartyId, camp: int, message: Message) -> list[Message]:
        """What a party answers."""
        self._seq += 1
        body = self.charter.codec.encode(message)
        item = Envelope(self.charter.session, AGGREGATOR, name, self._seq, message.kind(), body)
        self.machines[name, camp].receive(item, 0.0)
        answers = self.machines[name, camp].take()
        for each in (item, *answers) if name in self.honest else ():
            self._note(each)
        return [self._opened(answer) for answer in answers]

    def _note(self, item: Envelope) -> None:
        self.said.append(Sent(at=0, envelope=encode_envelope(item)))

    def _context(self, name: PartyId) -> bytes:
        return graph_context(self.charter.session, self.graphs[name])

    def _revealed(self, name: PartyId, told: Survivors, unmask: Unmask) -> bytes:
        """The share of the victim's that a party reveals."""
        key = self.identities[AGGREGATOR].agree(self.identities[name].public)
        edge = Edge(AGGREGATOR, name, edge_key(key, context=self._context(name)))
        content, _ = edge.open("Unmask", unmask.box, salt=unmask.salt, bound=survivors_digest(told))
        row = self.graphs[name].names.index(self.victim)
        return content[row * REVEALED : row * REVEALED + SECRET_BYTES]

    def _shares(self, camp: int, honest: Sequence[PartyId]) -> dict[PartyId, bytes]:
        """Tell a camp its survivors, and each of its members what the others confirm."""
        names = [name for name in self.holdings if camp == HERE or name != self.victim]
        told = Survivors(self.charter.roster.bitmap(names))
        members = [*honest, *self.corrupt]
        own = {name: camp if name in self.corrupt else HERE for name in members}
        words: dict[PartyId, Tags] = {}
        for name in members:
            for answer in self._tell(name, own[name], told):
                if isinstance(answer, Tags):
                    words[name] = answer
        shares = {}
        for name in members:
            hood = self.graphs[name].names
            given = np.array([other in words for other in hood])
            tags = np.zeros((len(hood), 16), np.uint8)
            for row in np.flatnonzero(given).tolist():
                other = PartyId(hood[row])
                tags[row] = words[other].tags[self.graphs[other].names.index(name)]
            for answer in self._tell(name, own[name], Tagged(0, given.astype(np.uint8), tags)):
                if isinstance(answer, Unmask) and name != self.victim:
                    shares[name] = self._revealed(name, told, answer)
        return shares

    def _secret(self, shares: dict[PartyId, bytes]) -> bytes | None:
        """What the first t shares of the victim's make, if there are as many."""
        hood = self.graphs[self.victim].names
        used = [name for name in hood if name in shares][: self.degree.threshold]
        if len(used) < self.degree.threshold:
            return None
        rows = np.array([[list(shares[PartyId(name)]) for name in used]], np.uint8)
        places = np.array([[hood.index(name) for name in used]])
        return reconstruct(rows, places)[0].tobytes()

    def read(self, beside: int) -> list[int] | None:
        """The victim's counts, as the conspirators find them.

        Args:
            beside: how many honest parties are in the victim's camp; the rest are in the other.
        """
        others = self.honest[1:]
        own = self._secret(self._shares(HERE, (self.victim, *others[:beside])))
        pairwise = self._secret(self._shares(GONE, others[beside:]))
        if own is None or pairwise is None:
            return None
        values: NDArray[np.unsignedinteger] = self.uploads[self.victim].values.copy()
        variant, parties = self.charter.variant, len(self.holdings)
        assert isinstance(variant, SecureSumVariant)
        bits = modulus_bits(parties * variant.max_records + variant.sums.coins(parties))
        values -= expand_mask(own, len(values), bits=bits)
        seeds = encrypt_seeds(pairwise, self.deals[self.victim].seeds)
        places = {name: place for place, name in enumerate(self.holdings)}
        for row, name in enumerate(map(PartyId, self.graphs[self.victim].names)):
            seed, other = seeds[row].tobytes(), places[name]
            values -= pair_mask(
                seed, len(values), place=places[self.victim], other=other, bits=bits
            )
        return [int(value) for value in values]

    @property
    def truth(self) -> list[int]:
        """The victim's counts."""
        variant = self.charter.variant
        assert isinstance(variant, SecureSumVariant)
        return counted(variant, self.holdings, [self.victim])

    @property
    def failed(self) -> list[PartyId]:
        """The honest parties that refused something."""
        return [name for name in self.honest if self.machines[name, HERE].failure is not None]


def colluders_of(names: Sequence[PartyId]) -> Callable[..., Awaitable[None]]:
    """How parties agree where these are colluders, who need nobody's confirmation."""

    async def agree(me: Me, hood: Hood, digest: bytes, *, round: int, degree: Degree) -> None:
        needed = 0 if me.id in names else degree.threshold
        degree = Degree(neighbours=degree.neighbours, threshold=needed)
        await agreement.agree(me, hood, digest, round=round, degree=degree)

    return agree


@pytest.fixture
def colluding(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[PartyId]], None]:
    """Make parties colluders."""

    def collude(names: Sequence[PartyId]) -> None:
        monkeypatch.setattr(sparse, "agree", colluders_of(names))

    return collude


Colluding = Callable[[Sequence[PartyId]], None]


def conspired(parties: int, colluders: int, collude: Colluding, beside: int) -> bool:
    """Whether an honest party's counts are read, while nobody notices."""
    conspiracy = Conspiracy(parties, colluders)
    collude(conspiracy.corrupt)
    found = conspiracy.read(beside)
    if found is None:
        return False
    assert found == conspiracy.truth
    assert conspiracy.failed == []
    return True


def splits(parties: int, colluders: int) -> list[int]:
    """By how many honest parties the victim may be accompanied."""
    return list(range(parties - colluders))


SIZES = [
    *range(3, 11),
    12,
    *(pytest.param(n, marks=pytest.mark.slow) for n in (11, *range(13, 25))),
]


@pytest.mark.parametrize("n", thinned(SIZES, 8))
def test_so_many_colluders_read_nobody_and_one_more_does(n: int, colluding: Colluding) -> None:
    """However the others are split in two camps. Where all others conspire nobody is left."""
    found = SecureSum().withstands(n)
    tried = splits(n, found.colluders)
    if n > 12:
        # The camps that are as small as they may be, and their neighbours.
        t = SecureSum().degree(n).threshold
        tried = [b for b in tried if abs(b - max(0, t - found.colluders)) <= 1]
    assert not any(conspired(n, found.colluders, colluding, beside) for beside in tried)
    more = found.colluders + 1
    if n - more >= 2:
        needed = max(0, SecureSum().degree(n).threshold - more)
        assert conspired(n, more, colluding, needed)
    else:
        assert found.missing == 0
        assert found.colluders == n - 2


def test_one_colluder_too_many_reads_counts_under_the_victims_own_coins(
    colluding: Colluding,
) -> None:
    """With coins as many are withstood as without; then only her own coins hide her counts."""
    n, sums = 9, SecureSum(noise=Noise(trials=40))
    withstood = sums.withstands(n).colluders
    for colluders in (withstood - 1, withstood):
        conspiracy = Conspiracy(n, colluders, sums)
        colluding(conspiracy.corrupt)
        assert conspiracy.read(n - colluders - 1) is None
    found = SecureSum(corrupt=0.2, dropped=0.3, noise=Noise(trials=40))
    conspiracy = Conspiracy(n, found.withstands(n).colluders + 1, found)
    colluding(conspiracy.corrupt)
    more = found.withstands(n).colluders + 1
    read = conspiracy.read(max(0, found.degree(n).threshold - more))
    assert read is not None
    coins = np.array(read) - conspiracy.truth
    assert ((coins >= 0) & (coins <= 40)).all()
    assert len(set(coins.tolist())) > 1
    assert conspiracy.failed == []


def test_twelve_parties_withstand_nine() -> None:
    found = SecureSum().withstands(12)
    assert (found.colluders, found.honest, found.missing) == (9, 2, 1)


@pytest.mark.parametrize("n", [3, 4, 9, 10, 12, 20])
def test_a_sum_is_over_as_many_honest_parties_as_promised(n: int) -> None:
    """With as many missing as may be, what colluders do not know is one sum over the others."""
    found = SecureSum().withstands(n)
    charter = charter_of(SecureSumVariant(survey=SURVEY), n)
    holdings = holdings_of(charter, answers(SURVEY, n))
    names = charter.roster.parties
    gone = dict.fromkeys(names[: found.missing], "Upload")
    trial = rehearsed(charter, holdings, fate=vanishing(gone))
    exact(trial, holdings, names[found.missing :])
    assert n - found.missing - found.colluders == found.honest
    gone = dict.fromkeys(names[: found.missing + 1], "Upload")
    trial = rehearsed(charter, holdings, fate=vanishing(gone))
    assert isinstance(trial.failure, QuorumError)
    assert trial.messages("Unmask") == []
