"""The sparse profile: masks among a few neighbours, so that parties may vanish at every round.

Every party uploads its values once, under a mask of its own and one mask per neighbour; those of
two neighbours cancel. Both kinds of secret are shared among the neighbours by Shamir's scheme. Of
a party that has uploaded they reveal the shares of its own mask, of one that has not those of the
key to its masks with others, and never both. (Bonawitz et al. 2017, with the graph of Bell et al.
2020. There the masks of two neighbours are from fresh keys; here they are from the identity keys,
by which the two have agreed on a key for this graph anyway.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.crypto.octets import Octets, row_bytes, stacked
from protocol.crypto.sealing import Edge, edge_key, seal
from protocol.crypto.shamir import share
from protocol.errors import PrivacyError, ProtocolError, RemoteProtocolError
from protocol.messages import AGGREGATOR, PartyId
from protocol.session.roles import Me
from protocol.sharing import opening
from protocol.sharing.agreement import SURVIVORS, agree, carry
from protocol.sharing.dealing import Delivered, Received, deal, deliver, receive
from protocol.sharing.graph import Degree
from protocol.sharing.masks import (
    DIGEST_BYTES,
    Bits,
    encrypt_seeds,
    expand_mask,
    mask_seed,
    pair_mask,
    seed_digest,
)
from protocol.sharing.meeting import Hood, Meeting, join, meet
from protocol.sharing.messages import (
    OWN,
    PAIRWISE,
    SECRET_BYTES,
    Deal,
    Join,
    Survivors,
    Unmask,
    Upload,
)
from protocol.transcript.certifying import Witnesses, certify, receive_certified
from protocol.transcript.evidence import unmasked_statement


class Sum(NamedTuple):
    """A sum on the aggregator's side.

    Args:
        totals: (cells,), int64.
        survivors: the parties with values in it, in roster order.
        respondents: the number of their respondents.
        accused: the parties with invalid shares or messages, by the account of others or by proof.
        hoods: everybody's neighbours, by place and row.
    """

    totals: NDArray[np.int64]
    survivors: tuple[PartyId, ...]
    respondents: int
    accused: tuple[PartyId, ...]
    hoods: NDArray[np.int64]


class Summed(NamedTuple):
    """A sum on a party's side.

    Args:
        totals: (cells,), int64.
        respondents: the number of respondents in it.
        hood: the neighbours that are in it.
        digest: the digest of what this party received, to compare with other parties.
    """

    totals: NDArray[np.int64]
    respondents: int
    hood: Hood
    digest: bytes


def survivors_digest(survivors: Survivors) -> bytes:
    """Hash of the survivor set, which parties compare, sign and bind their shares to."""
    return hashlib.sha256(b"survivors\0" + survivors.uploaded).digest()


def survivors_among(uploaded: bytes, *, parties: int) -> NDArray[np.bool_]:
    """Members of a survivor set among the roster's parties, (n,).

    Raises:
        RemoteProtocolError: there are too few or too many bits, or one is set that stands for
            no party.
    """
    bits = np.unpackbits(np.frombuffer(uploaded, np.uint8), bitorder="little").astype(np.bool_)
    members = parties + 1
    # The aggregator is the roster's first member.
    if len(uploaded) != (members + 7) // 8 or bits[0] or bits[members:].any():
        raise RemoteProtocolError(
            f"expected a bitmap over {members} members in which only the bits of parties are set",
            field="Survivors.uploaded",
        )
    return bits[1:members]


async def contribute(
    me: Me,
    values: NDArray[np.unsignedinteger],
    *,
    respondents: int,
    degree: Degree,
    bits: Bits,
    least: int,
    witnesses: Witnesses | None = None,
) -> Hood:
    """A party's side.

    Args:
        values: (cells,), this party's own counts.
        respondents: the number of respondents that it speaks for.
        degree: the number of neighbours of every party, and of those that can unmask.
        bits: of a cell under masks.
        least: with fewer parties, itself included, this party neither uploads nor unmasks.
        witnesses: who have to certify the survivors.

    Returns:
        The neighbours, with those there that have uploaded.

    Raises:
        PrivacyError: more parties are missing than agreed.
        RemoteProtocolError: others broke the rules so far that this party's values are at risk, or
            the survivors are not certified.
    """
    k = degree.neighbours
    hood = await join(me, respondents=respondents, neighbours=k)
    stream, context = hood.stream, hood.context
    own_seed, seed_key = stream.bytes(SECRET_BYTES), stream.bytes(SECRET_BYTES)
    seeds, digests = _mask_seeds(hood)
    content = np.frombuffer(own_seed + seed_key, np.uint8)
    shares = share(content, shares=k, threshold=degree.threshold, stream=stream)
    await deal(
        me,
        hood,
        shares.reshape(k, 2, SECRET_BYTES),
        whole=hashlib.sha256(context + own_seed).digest(),
        seeds=encrypt_seeds(seed_key, seeds),
        digests=digests,
    )
    del shares
    received = await receive(me, hood, parts=2)
    _check_dealt(received.dealt, received.good, hood, degree)
    parties = len(me.roster) - 1
    # All that joined may still come, but only neighbours with a good box.
    lost = int((hood.there & ~received.good).sum())
    _check_missing(parties - hood.joined + lost, parties - least)
    masked = _mask(values, own_seed, seeds, hood, received, bits=bits)
    del seeds
    rejected = received.dealt & ~received.good
    await me.send(AGGREGATOR, Upload(masked, rejected.astype(np.uint8)))
    hood, digest = await _hear_survivors(
        me, hood, received, degree=degree, least=least, witnesses=witnesses
    )
    # All must unmask one set: by shares for different ones, one party's values could be had.
    await agree(me, hood, digest, round=SURVIVORS, degree=degree)
    await me.send(AGGREGATOR, _reveal(me, hood, received, digest))
    return hood


def _mask(
    values: NDArray[np.unsignedinteger],
    own_seed: bytes,
    seeds: Octets,
    hood: Hood,
    received: Received,
    *,
    bits: Bits,
) -> NDArray[np.unsignedinteger]:
    """Values under the party's own mask and those with all neighbours that have dealt."""
    masked = values.astype(f"<u{bits // 8}")
    masked += expand_mask(own_seed, len(values), bits=bits)
    places = hood.places.tolist()
    for row in np.flatnonzero(received.dealt).tolist():
        seed = seeds[row].tobytes()
        masked += pair_mask(seed, len(values), place=hood.place, other=places[row], bits=bits)
    return masked


def _reveal(me: Me, hood: Hood, received: Received, digest: bytes) -> Unmask:
    """Shares for the aggregator, one kind per neighbour, for the survivor set of a digest."""
    # One kind of share per neighbour, whatever the aggregator sends later.
    kind = np.where(hood.there, OWN, PAIRWISE)
    rows = np.arange(len(hood.names))
    revealed = np.concatenate([received.shares[rows, kind], received.salts[rows, kind]], axis=1)
    revealed[~received.good] = 0
    secret_shared = me.agree(me.roster.key(AGGREGATOR))
    edge = Edge(me.id, AGGREGATOR, edge_key(secret_shared, context=hood.context))
    salt, boxes, _ = seal(me.stream, "Unmask", [(edge, revealed.tobytes(), digest)])
    return Unmask(me.sign(unmasked_statement(hood.context, digest)), salt, boxes[0])


async def _hear_survivors(
    me: Me,
    hood: Hood,
    received: Received,
    *,
    degree: Degree,
    least: int,
    witnesses: Witnesses | None,
) -> tuple[Hood, bytes]:
    """Wait for the survivors, and refuse sets that endanger this party's values.

    Returns:
        The neighbours, with those there that have uploaded; and the digest of the set.

    Raises:
        PrivacyError, RemoteProtocolError: as ``contribute``.
    """
    parties = len(me.roster) - 1
    survivors = await receive_certified(me, Survivors, witnesses, number=SURVIVORS)
    among = survivors_among(survivors.uploaded, parties=parties)
    uploaded, survived = among[hood.places], int(among.sum())
    if not among[hood.place] or (uploaded & ~hood.there).any():
        raise RemoteProtocolError(
            "the survivors leave out this party, or include a neighbour that has not joined",
            field="Survivors.uploaded",
        )
    if survived > hood.joined:
        raise RemoteProtocolError(
            f"{survived} survivors of {hood.joined} who joined", field="Survivors.uploaded"
        )
    # Survivors without a mask with this party, or without a valid share, do not count.
    vouched = int((uploaded & received.good).sum())
    lost = int((uploaded & ~received.good).sum())
    _check_missing(parties - survived + lost, parties - least)
    if witnesses is not None and lost:
        # One set is not one sum where honest parties in it have no mask with each other.
        apart = [hood.names[row] for row in np.flatnonzero(uploaded & ~received.good).tolist()]
        raise RemoteProtocolError(
            f"no mask with the survivors {', '.join(apart[:5])}: they may be in another sum",
            field="Survivors",
        )
    if vouched < degree.threshold:
        raise RemoteProtocolError(
            f"{vouched} neighbours with valid shares among the survivors, at least "
            f"{degree.threshold} needed",
            field="Survivors",
        )
    return replace(hood, there=uploaded, joined=survived), survivors_digest(survivors)


def _mask_seeds(hood: Hood) -> tuple[Octets, Octets]:
    """Seeds of a party's masks with its neighbours, (k, 32), and their digests, (k, 16).

    Rows of neighbours that do not take part are zeros.
    """
    seeds = np.zeros((len(hood.names), SECRET_BYTES), np.uint8)
    digests = np.zeros((len(hood.names), DIGEST_BYTES), np.uint8)
    edges = hood.edges()
    own = [mask_seed(edge) for edge in edges.values()]
    seeds[hood.there] = stacked(own, SECRET_BYTES)
    said = [
        seed_digest(seed, hood.context, (hood.me, hood.names[row]))
        for seed, row in zip(own, edges, strict=True)
    ]
    digests[hood.there] = stacked(said, DIGEST_BYTES)
    return seeds, digests


def _check_missing(missing: int, most: int) -> None:
    """Refuse a sum with too few others."""
    if missing > most:
        raise PrivacyError(
            f"parties that are missing or cannot be checked: {missing}, expected at most {most}"
        )


def _check_dealt(
    dealt: NDArray[np.bool_], good: NDArray[np.bool_], hood: Hood, degree: Degree
) -> None:
    """Refuse to upload if too few neighbours dealt what they committed to."""
    if good.sum() >= degree.threshold:
        return
    bad = [hood.names[row] for row in np.flatnonzero(dealt & ~good).tolist()]
    if bad:
        raise RemoteProtocolError(f"invalid shares from {', '.join(bad[:5])}", field="Dealt.boxes")
    raise RemoteProtocolError(
        f"{good.sum()} neighbours dealt valid shares, at least {degree.threshold} needed",
        field="Dealt.dealt",
    )


async def collect(
    me: Me,
    joins: Mapping[PartyId, Join],
    *,
    cells: int,
    degree: Degree,
    bits: Bits,
    within: float | None,
    quorum: int,
    published: bool,
    witnesses: Witnesses | None = None,
) -> Sum:
    """The aggregator's side, from the joins on.

    Args:
        published: whether the opening of the sum goes on record.
        witnesses: who have to certify the survivors.

    Raises:
        QuorumError: too few are left.
        ProtocolError: the sum cannot be unmasked, or does not add up; names the party to blame.
    """
    meeting = await meet(me, joins, neighbours=degree.neighbours)
    context = meeting.context
    deals = await me.gather(Deal, tuple(joins), within=within, at_least=quorum)
    dealers = tuple(deals)
    delivered = await deliver(me, meeting, deals)
    uploads = await me.gather(Upload, dealers, within=within, at_least=quorum)
    survivors = tuple(uploads)
    places = {name: place for place, name in enumerate(meeting.names)}
    uploaded = np.zeros(len(meeting.names), np.bool_)
    uploaded[[places[name] for name in survivors]] = True
    announced = Survivors(me.roster.bitmap(survivors))
    digest = survivors_digest(announced)
    await certify(me, survivors, announced, witnesses, number=SURVIVORS)
    agreed = await carry(me, survivors, meeting.hoods, round=SURVIVORS, within=within, quorum=1)
    unmasks = await me.gather(Unmask, agreed, within=within, at_least=1)
    rejected = _rejected({places[name]: each for name, each in uploads.items()}, meeting, delivered)
    signed = {
        places[name]: unmask
        for name, unmask in unmasks.items()
        if me.roster.verify(name, unmask.signature, unmasked_statement(context, digest))
    }
    gave = np.zeros(len(meeting.names), np.bool_)
    gave[list(signed)] = True
    accused = np.zeros(len(meeting.names), np.bool_)
    accused[meeting.hoods[rejected]] = True
    accused[[places[name] for name in unmasks if places[name] not in signed]] = True
    found = await opening.opened(
        me,
        lambda: opening.recover(
            me, meeting, delivered, uploaded, signed, rejected, degree=degree, digest=digest
        ),
        parties=len(meeting.names),
        published=published,
    )
    accused |= found.accused
    opening.check(found, meeting, delivered, gave, rejected, degree=degree, accused=accused)
    total = np.zeros(cells, f"<u{bits // 8}")
    for upload in uploads.values():
        total += upload.values
    _unmask(total, found.secrets, meeting, delivered, uploaded, bits=bits)
    return Sum(
        total.astype(np.int64),
        survivors,
        sum(joins[name].respondents for name in survivors),
        tuple(meeting.names[place] for place in np.flatnonzero(accused).tolist()),
        meeting.hoods,
    )


def _rejected(
    uploads: Mapping[int, Upload], meeting: Meeting, delivered: Delivered
) -> NDArray[np.bool_]:
    """(n, k) the neighbours whose box a party could not open, so that it has no share of theirs.

    Args:
        uploads: by place.
    """
    # Two neighbours that differ about their mask were not handed each other's boxes.
    rejected = delivered.dealt[:, None] & delivered.dealt[meeting.hoods] & ~delivered.masked
    for place, upload in uploads.items():
        rejected[place] |= upload.rejected.astype(np.bool_) & delivered.masked[place]
    return rejected


def _unmask(
    total: NDArray[np.unsignedinteger],
    secrets: Octets,
    meeting: Meeting,
    delivered: Delivered,
    uploaded: NDArray[np.bool_],
    *,
    bits: Bits,
) -> None:
    """Remove all masks from a sum of uploads, by one secret of each party that dealt.

    Raises:
        ProtocolError: a secret is not the one that its party committed to.
    """
    for place in np.flatnonzero(delivered.dealt).tolist():
        name, secret = meeting.names[place], secrets[place].tobytes()
        if not uploaded[place]:
            _cancel(total, place, secret, meeting, delivered, uploaded, bits=bits)
        elif hashlib.sha256(meeting.context + secret).digest() == delivered.wholes[name]:
            total -= expand_mask(secret, len(total), bits=bits)
        else:
            raise _foreign_secret(name)


def _cancel(
    total: NDArray[np.unsignedinteger],
    place: int,
    secret: bytes,
    meeting: Meeting,
    delivered: Delivered,
    uploaded: NDArray[np.bool_],
    *,
    bits: Bits,
) -> None:
    """Remove the masks that survivors share with a party that dealt and did not upload."""
    name, hood = meeting.names[place], meeting.hoods[place].tolist()
    seeds = row_bytes(encrypt_seeds(secret, delivered.seeds[place]))
    digests = row_bytes(delivered.digests[place])
    for row in np.flatnonzero(delivered.masked[place]).tolist():
        other = hood[row]
        ends = (name, meeting.names[other])
        if seed_digest(seeds[row], meeting.context, ends) != digests[row]:
            raise _foreign_secret(name)
        if uploaded[other]:
            # The survivor has added the negative.
            total += pair_mask(seeds[row], len(total), place=place, other=other, bits=bits)


def _foreign_secret(name: PartyId) -> ProtocolError:
    return ProtocolError(f"the secret that opens {name}'s masks is not what it committed to")
