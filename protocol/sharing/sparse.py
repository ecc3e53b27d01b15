"""The sparse profile: masks among a few neighbours, so that parties may vanish at every round.

Every party uploads its values once, under a mask of its own and one mask per neighbour; those of
two neighbours cancel. Both kinds of secret are shared among the neighbours by Shamir's scheme. Of
a party that has uploaded they reveal the shares of its own mask, of one that has not those of its
mask key, and never both. (Bonawitz et al. 2017, with the graph of Bell et al. 2020.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.crypto.commitments import opens
from protocol.crypto.key_agreement import AgreementKey
from protocol.crypto.octets import rows_of
from protocol.crypto.sealing import Edge, edge_key, seal
from protocol.crypto.shamir import reconstruct, share
from protocol.errors import PrivacyError, ProtocolError, RemoteProtocolError
from protocol.messages import AGGREGATOR, PartyId
from protocol.session.roles import Me
from protocol.sharing.agreement import SURVIVORS, agree, carry
from protocol.sharing.dealing import Delivered, commitment_context, deal, deliver, receive
from protocol.sharing.graph import Degree, mirror
from protocol.sharing.masks import Bits, expand_mask, mask_seed, pair_mask
from protocol.sharing.meeting import Hood, Meeting, join, meet
from protocol.sharing.messages import (
    REVEALED,
    SECRET_BYTES,
    Deal,
    Join,
    Survivors,
    Unmask,
    Upload,
)

OWN, PAIRWISE = 0, 1
"""The two parts of a dealt share: of the dealer's own mask seed, and of its mask key."""


class Sum(NamedTuple):
    """A sum as the aggregator has it.

    Args:
        totals: (cells,), int64.
        survivors: whose values are in it, in roster order.
        respondents: for how many they speak.
        accused: whose shares or words did not hold, by the account of others or by proof.
        hoods: everybody's neighbours, by place and row.
    """

    totals: NDArray[np.int64]
    survivors: tuple[PartyId, ...]
    respondents: int
    accused: tuple[PartyId, ...]
    hoods: NDArray[np.int64]


class Summed(NamedTuple):
    """A sum as a party has it.

    Args:
        totals: (cells,), int64.
        respondents: for how many they stand.
        hood: the neighbours that are in it.
        digest: of what this party received, to be compared with other parties.
    """

    totals: NDArray[np.int64]
    respondents: int
    hood: Hood
    digest: bytes


def _signed(context: bytes, digest: bytes) -> bytes:
    """What a party signs: which survivor set it has helped to unmask."""
    return context + b"unmasked" + digest


def digest_of(survivors: Survivors) -> bytes:
    """What parties compare, sign and bind their shares to: a hash of the survivor set."""
    return hashlib.sha256(b"survivors\0" + survivors.uploaded).digest()


def survivors_among(uploaded: bytes, *, parties: int) -> NDArray[np.bool_]:
    """Which of the roster's parties are in a survivor set, (n,).

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
) -> Hood:
    """A party's side.

    Args:
        values: (cells,), this party's own counts.
        respondents: for how many it speaks.
        degree: how many neighbours everybody has, and how many of them can unmask.
        bits: of a cell under masks.
        least: with fewer parties, itself included, this party neither uploads nor unmasks.

    Returns:
        The neighbours; those are there that have uploaded.

    Raises:
        PrivacyError: more parties are missing than agreed.
        RemoteProtocolError: others broke the rules so far that this party's values are at risk.
    """
    # Of this session alone, whatever the stream is of: a mask key is never used twice.
    secret = me.stream.derive(f"mask key {me.session.hex()}").bytes(SECRET_BYTES)
    own_key = me.fresh_key(secret)
    k = degree.neighbours
    hood = await join(me, respondents=respondents, mask_key=own_key.public, neighbours=k)
    stream, context = hood.stream, hood.context
    own_seed = stream.bytes(SECRET_BYTES)
    content = np.frombuffer(own_seed + secret, np.uint8)
    shares = share(content, shares=k, threshold=degree.threshold, stream=stream)
    await deal(
        me,
        hood,
        shares.reshape(k, 2, SECRET_BYTES),
        own_key=own_key.public,
        whole=hashlib.sha256(context + own_seed).digest(),
    )
    del shares
    received = await receive(me, hood, own_key=own_key.public, parts=2)
    _check_dealt(received.dealt, received.good, hood, degree)
    parties = len(me.roster) - 1
    # Whoever has joined may still come; of the neighbours, only those whose box is good.
    lost = int((hood.there & ~received.good).sum())
    _check_missing(parties - hood.joined + lost, parties - least)
    masked = values.astype(f"<u{bits // 8}")
    masked += expand_mask(own_seed, len(values), bits=bits)
    keys, places = rows_of(hood.mask_keys), hood.places.tolist()
    for row in np.flatnonzero(received.dealt).tolist():
        seed = mask_seed(own_key, keys[row], context, (me.id, hood.names[row]))
        masked += pair_mask(seed, len(values), place=hood.place, other=places[row], bits=bits)
    rejected = received.dealt & ~received.good
    await me.send(AGGREGATOR, Upload(masked, rejected.astype(np.uint8)))
    survivors = await me.receive(Survivors, AGGREGATOR)
    among = survivors_among(survivors.uploaded, parties=parties)
    uploaded, survived = among[hood.places], int(among.sum())
    if not among[hood.place] or (uploaded & ~received.dealt).any():
        raise RemoteProtocolError(
            "the survivors leave out this party, or include a neighbour that has not dealt",
            field="Survivors.uploaded",
        )
    if survived > hood.joined:
        raise RemoteProtocolError(
            f"{survived} survivors of {hood.joined} who joined", field="Survivors.uploaded"
        )
    # Masks that a neighbour does not vouch for hide nothing, so it does not count.
    vouched = int((uploaded & received.good).sum())
    lost = int((uploaded & ~received.good).sum())
    _check_missing(parties - survived + lost, parties - least)
    if vouched < degree.threshold:
        raise RemoteProtocolError(
            f"{vouched} neighbours with valid shares among the survivors, at least "
            f"{degree.threshold} needed",
            field="Survivors",
        )
    # All must unmask one set: by shares for different ones, one party's values could be had.
    hood, digest = replace(hood, there=uploaded, joined=survived), digest_of(survivors)
    await agree(me, hood, digest, round=SURVIVORS, degree=degree)
    # One kind of share per neighbour, whatever the aggregator says later.
    kind = np.where(uploaded, OWN, PAIRWISE)
    rows = np.arange(k)
    revealed = np.concatenate([received.shares[rows, kind], received.salts[rows, kind]], axis=1)
    revealed[~received.good] = 0
    secret_shared = me.agree(me.roster.key(AGGREGATOR))
    edge = Edge(me.id, AGGREGATOR, edge_key(secret_shared, context=context))
    salt, boxes, _ = seal(me.stream, "Unmask", [(edge, revealed.tobytes(), digest)])
    await me.send(AGGREGATOR, Unmask(me.sign(_signed(context, digest)), salt, boxes[0]))
    return hood


def _check_missing(missing: int, most: int) -> None:
    """Refuse to be added up with too few others."""
    if missing > most:
        raise PrivacyError(
            f"parties that are missing or cannot be checked: {missing}, expected at most {most}"
        )


def _check_dealt(
    dealt: NDArray[np.bool_], good: NDArray[np.bool_], hood: Hood, degree: Degree
) -> None:
    """Refuse to upload where too few neighbours dealt what they committed to."""
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
) -> Sum:
    """The aggregator's side, from the joins on.

    Raises:
        QuorumError: too few are left.
        ProtocolError: the sum cannot be unmasked, or does not add up; says who is to blame.
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
    told = Survivors(me.roster.bitmap(survivors))
    digest = digest_of(told)
    await me.broadcast(survivors, told)
    agreed = await carry(me, survivors, meeting.hoods, round=SURVIVORS, within=within, quorum=1)
    unmasks = await me.gather(Unmask, agreed, within=within, at_least=1)
    accused = {
        meeting.names[meeting.hoods[places[name], row]]
        for name, upload in uploads.items()
        for row in np.flatnonzero(upload.rejected).tolist()
    }
    k = degree.neighbours
    revealed = np.zeros((len(meeting.names), k, REVEALED), np.uint8)
    for name, unmask in unmasks.items():
        rows = _revealed(me, name, unmask, neighbours=k, context=context, digest=digest)
        if rows is None:
            accused.add(name)
        else:
            revealed[places[name]] = rows
    recovered = _recover(me, meeting, delivered, uploaded, revealed, degree=degree, accused=accused)
    total = np.zeros(cells, f"<u{bits // 8}")
    for upload in uploads.values():
        total += upload.values
    for place, secret in recovered.items():
        name = meeting.names[place]
        if uploaded[place]:
            if hashlib.sha256(context + secret).digest() != delivered.wholes[name]:
                raise ProtocolError(f"the shares of {name} are not of what it committed to")
            total -= expand_mask(secret, cells, bits=bits)
        else:
            _cancel(total, place, secret, meeting, uploaded, context=context, bits=bits)
    return Sum(
        total.astype(np.int64),
        survivors,
        sum(joins[name].respondents for name in survivors),
        tuple(name for name in meeting.names if name in accused),
        meeting.hoods,
    )


def _cancel(
    total: NDArray[np.unsignedinteger],
    place: int,
    secret: bytes,
    meeting: Meeting,
    uploaded: NDArray[np.bool_],
    *,
    context: bytes,
    bits: Bits,
) -> None:
    """Take out the masks that survivors share with one who has dealt and not uploaded."""
    name = meeting.names[place]
    own_key = AgreementKey(secret)
    if own_key.public != meeting.joins[name].key.tobytes():
        raise ProtocolError(f"the shares of {name} are not of what it committed to")
    for other in meeting.hoods[place].tolist():
        if uploaded[other]:
            beside = meeting.names[other]
            seed = mask_seed(own_key, meeting.joins[beside].key.tobytes(), context, (name, beside))
            # The survivor has added the negative.
            total += pair_mask(seed, len(total), place=place, other=other, bits=bits)


def _revealed(
    me: Me, name: PartyId, unmask: Unmask, *, neighbours: int, context: bytes, digest: bytes
) -> NDArray[np.uint8] | None:
    """What a party reveals, (k, bytes), a row for each neighbour; None if it does not hold."""
    if not me.roster.verify(name, unmask.signature, _signed(context, digest)):
        return None
    try:
        secret = me.agree(me.roster.key(name))
        edge = Edge(me.id, name, edge_key(secret, context=context))
        content, _ = edge.open("Unmask", unmask.box, salt=unmask.salt, bound=digest)
    except (RemoteProtocolError, ValueError):
        return None
    rows = np.frombuffer(content, np.uint8)
    return rows.reshape(-1, REVEALED) if rows.size == neighbours * REVEALED else None


def _recover(
    me: Me,
    meeting: Meeting,
    delivered: Delivered,
    uploaded: NDArray[np.bool_],
    revealed: NDArray[np.uint8],
    *,
    degree: Degree,
    accused: set[PartyId],
) -> dict[int, bytes]:
    """By place, the secret of everybody who has dealt: the one that is to be known.

    Args:
        revealed: (parties, k, bytes), by who reveals and its row; zeros where there is nothing.
        accused: who is to blame, added to.

    Raises:
        ProtocolError: too few valid shares of a secret; it says whose, and who is to blame.
    """
    names = meeting.names
    back = mirror(np.arange(degree.neighbours), degree.neighbours)
    dealers = np.flatnonzero(delivered.dealt)
    chosen = np.zeros((len(dealers), degree.threshold), np.int64)
    shares = np.zeros((len(dealers), degree.threshold, SECRET_BYTES), np.uint8)
    for i, place in enumerate(dealers.tolist()):
        hood = meeting.hoods[place]
        given = revealed[hood, back]
        there = given.any(axis=1)
        kind = OWN if uploaded[place] else PAIRWISE
        good = opens(
            delivered.commitments[place, :, kind],
            salts=given[:, SECRET_BYTES:],
            shares=given[:, :SECRET_BYTES],
            context=commitment_context(me.session, kind),
        )
        accused.update(names[other] for other in hood[there & ~good].tolist())
        rows = np.flatnonzero(there & good)
        if len(rows) < degree.threshold:
            silent = ", ".join(names[other] for other in hood[~(there & good)][:5].tolist())
            blamed = ", ".join(name for name in names if name in accused)
            raise ProtocolError(
                f"the sum cannot be unmasked: {len(rows)} of {degree.threshold} shares of "
                f"{names[place]}'s secret; no valid share from {silent}"
                + (f"; accused: {blamed}" if blamed else "")
            )
        chosen[i] = rows[: degree.threshold]
        shares[i] = given[chosen[i], :SECRET_BYTES]
    secrets = reconstruct(shares, chosen)
    return {
        place: secret.tobytes() for place, secret in zip(dealers.tolist(), secrets, strict=True)
    }
