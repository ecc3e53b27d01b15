"""The setting of a simulated survey: charter, identities, streams and records, from one seed."""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Iterator, Mapping, Sequence

import msgspec
import numpy as np
from msgspec import UNSET

from protocol.audit.coalition.coalition import serving
from protocol.crypto.key_agreement import Agreed
from protocol.crypto.randomness import WORDS, Streams, public_nonce, secret_of
from protocol.errors import SurveyError
from protocol.estimators.analysis import Analysis
from protocol.messages import AGGREGATOR, IDENTITY_STREAM, Boxed, Envelope, Message, PartyId
from protocol.session.charter import Charter
from protocol.session.roles import Boxes, open_boxes
from protocol.session.roster import Identity, Roster
from protocol.session.variant import Variant
from protocol.surveys.records import Records
from protocol.surveys.weights import check_strata
from protocol.wire.arrays import Array, encode_message


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """Setting of a simulation.

    Args:
        seed: of everything below.
        charter: session, variant and roster.
        streams: everybody's randomness.
        identities: everybody's keys.
        holdings: the records of each party.
    """

    seed: int
    charter: Charter
    streams: Streams
    identities: Mapping[PartyId, Identity]
    holdings: Mapping[PartyId, Records]

    def message(self, envelope: Envelope) -> Message:
        """Decode an envelope, also a sealed one.

        Raises:
            RemoteProtocolError: it is malformed.
        """
        codec = self.charter.codec
        message = codec.decode(envelope.kind, envelope.body)
        if isinstance(message, Boxed):
            return codec.unseal(envelope, message, self._boxes_for(envelope.recipient).open)
        return message

    def messages(
        self, envelope: Envelope, readers: Container[PartyId] | None = None
    ) -> dict[str, Message]:
        """Decode an envelope for some members together, with the boxes in it that they open.

        Args:
            readers: the members that open boxes; None for all.

        Returns:
            The message itself under ``""``. For each field of boxes one message, with the rows from
            all of its boxes.

        Raises:
            RemoteProtocolError: it is malformed.
        """
        codec = self.charter.codec
        if readers is not None and envelope.recipient not in readers:
            return {"": codec.decode(envelope.kind, envelope.body)}
        message = self.message(envelope)
        found = {"": message}
        for field, kind in codec.held(message).items():
            inside: list[Message] = []
            for member in serving(self.charter.roster).members:
                if readers is None or member in readers:
                    inside += filter(None, self._opened(member, kind, getattr(message, field)))
            if inside:
                found[field] = _stacked(inside)
        return found

    def legible(self, envelope: Envelope, readers: Container[PartyId]) -> bytes:
        """Encode an envelope as some members read it, with boxes for others blank.

        Raises:
            RemoteProtocolError: it is malformed.
        """
        found = self.messages(envelope, readers)
        message = found[""]
        if isinstance(message, Boxed):
            found[""] = msgspec.structs.replace(message, box=b"")
        else:
            for field, kind in self.charter.codec.held(message).items():
                rows = getattr(message, field).copy()
                for member in self.charter.roster.position:
                    rows[[each is not None for each in self._opened(member, kind, rows)]] = 0
                message = msgspec.structs.replace(message, **{field: rows})
            found[""] = message
        return b"".join(map(encode_message, found.values()))

    def _opened(self, member: PartyId, kind: type[Message], boxes: Array) -> list[Message | None]:
        return open_boxes(self._boxes_for(member), self.charter.codec, kind, boxes)

    def _boxes_for(self, member: PartyId) -> Boxes:
        return Boxes(self.charter.session, self.charter.roster, self.identities[member], None)

    def __repr__(self) -> str:
        return f"<Setting: {self.charter.variant.name}, {len(self.holdings)} parties>"


PublicKeys = Callable[[int, Sequence[PartyId]], Sequence[bytes]]
"""Makes the public keys of members from a seed, as ``public_keys`` does."""


class _Identities(Mapping[PartyId, Identity]):
    """Everybody's identities, each derived when it is looked up."""

    def __init__(self, streams: Streams, names: Sequence[PartyId]) -> None:
        self._streams = streams
        self._names = dict.fromkeys(names)
        self._agreed: Agreed = {}

    def __getitem__(self, name: PartyId) -> Identity:
        if name not in self._names:
            raise KeyError(name)
        return simulated_identity(self._streams, name, self._agreed)

    def __iter__(self) -> Iterator[PartyId]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def make_setting(
    variant: Variant,
    records: Records,
    *,
    seed: int,
    parties: int | None = None,
    keys: PublicKeys | None = None,
    analysis: Analysis | None = None,
    strata: Sequence[str] | None = None,
) -> Setting:
    """Spread records over parties and give everybody an identity.

    Args:
        variant: the protocol; its ``max_records`` is set to the largest holding.
        records: the true answers.
        seed: decides everything, and protects nobody: with it every randomization can be undone.
        parties: the number of parties; by default one per respondent.
        keys: makes the public keys, if not this process. ``identities`` are then derived one by
            one, when they are looked up.
        analysis: the announced analysis.
        strata: the stratum of each respondent, if the variant has weights. Each party then has
            respondents of one stratum, and its name begins with it.

    Raises:
        SurveyError: the records are of another survey, or fewer than the parties; strata without
            weights or weights without strata; or fewer parties than strata.
        TypeError: an argument is not a variant, records or an integer.
        ValueError: the seed is negative, or 2**64 or more.
    """
    if not isinstance(variant, Variant) or not isinstance(records, Records):
        raise TypeError(
            "expected a variant, such as RRJoint.with_keep(survey, p=0.5), and Records, in this "
            f"order; got {_described(variant)} and {_described(records)}"
        )
    seed = _integer("seed", seed)
    parties = len(records) if parties is None else _integer("parties", parties)
    if not 0 <= seed < WORDS:
        raise ValueError(f"seed {seed}: expected an integer from 0 to 2**64 - 1")
    if records.survey != variant.survey:
        raise SurveyError("the records are of another survey than the variant's")
    holdings = _make_holdings(variant, records, parties, strata)
    names, held = [*holdings], [*holdings.values()]
    streams = Streams.of_seed(seed)
    members = (AGGREGATOR, *service_names(variant.roles), *names)
    identities: Mapping[PartyId, Identity]
    if keys is None:
        agreed: Agreed = {}
        identities = {name: simulated_identity(streams, name, agreed) for name in members}
        public: Sequence[bytes] = [identity.public for identity in identities.values()]
    else:
        identities = _Identities(streams, members)
        public = keys(seed, members)
    roster = Roster(tuple(zip(members, public, strict=True)), variant.roles)
    fitted = msgspec.structs.replace(variant, max_records=max(len(part) for part in held))
    return Setting(
        seed=seed,
        charter=Charter(
            variant=fitted,
            roster=roster,
            nonce=public_nonce(secret_of(seed)),
            analysis=analysis,
            enrolled=(("seed", len(members) - 1),),
        ),
        streams=streams,
        identities=identities,
        holdings=holdings,
    )


def _make_holdings(
    variant: Variant, records: Records, parties: int, strata: Sequence[str] | None
) -> dict[PartyId, Records]:
    if strata is None:
        if variant.strata:
            raise SurveyError("weights: expected the stratum of every respondent, too")
        return _named("party", records.split(parties))
    check_strata(strata, {} if variant.weights is UNSET else variant.weights)
    if len(strata) != len(records):
        raise SurveyError(f"strata of {len(strata)} respondents: expected {len(records)}")
    if parties > len(records):
        raise SurveyError(f"{len(records)} records cannot be split into {parties} parts")
    place = {name: at for at, name in enumerate(variant.strata)}
    at = np.array([place[name] for name in strata])
    sizes = np.bincount(at, minlength=len(place))
    shared = sizes.clip(max=1)
    if parties < shared.sum():
        raise SurveyError(
            f"parties {parties}: expected at least {shared.sum()}, one for each stratum"
        )
    for _ in range(parties - int(shared.sum())):
        # The next party goes to the stratum with the largest holdings.
        shared[np.argmax(sizes / shared.clip(min=1))] += 1
    found: dict[PartyId, Records] = {}
    for name, number in zip(variant.strata, shared.tolist(), strict=True):
        if number:
            own = records.pick(np.flatnonzero(at == place[name]))
            found |= _named(name, own.split(number))
    return found


def _named(word: str, held: Sequence[Records]) -> dict[PartyId, Records]:
    """Holdings by names of a word and a number."""
    width = len(str(len(held)))
    return {PartyId(f"{word}-{i:0{width}}"): part for i, part in enumerate(held, 1)}


def service_names(roles: Sequence[str]) -> list[PartyId]:
    """The names of services: their roles, numbered where several have the same."""
    names = []
    for place, role in enumerate(roles):
        alone = roles.count(role) == 1
        names.append(role if alone else f"{role}-{roles[: place + 1].count(role)}")
    return [PartyId(name) for name in names]


def public_keys(seed: int, names: Sequence[PartyId]) -> list[bytes]:
    """The public keys of members of a simulation, 32 bytes each."""
    streams = Streams.of_seed(seed)
    return [simulated_identity(streams, name).public for name in names]


def simulated_identity(streams: Streams, name: PartyId, agreed: Agreed | None = None) -> Identity:
    """A member's identity key, which follows from the seed of the simulation.

    Args:
        agreed: the shared secrets of all members in this process, so that each is computed once.
    """
    return Identity(name, streams.stream(name, IDENTITY_STREAM).bytes(32), agreed)


def _stacked(messages: Sequence[Message]) -> Message:
    """Concatenate the arrays of messages of one kind."""
    first = messages[0]
    arrays = {
        field: np.concatenate([getattr(each, field) for each in messages])
        for field in first.__struct_fields__
        if isinstance(getattr(first, field), np.ndarray)
    }
    return msgspec.structs.replace(first, **arrays)


def _described(given: object) -> str:
    """Describe what was given, for an error message."""
    if isinstance(given, type):
        return f"the class {given.__name__}"
    return type(given).__name__


def _integer(name: str, given: object) -> int:
    """An integer of any integer type, as the built-in one."""
    try:
        return operator.index(given)  # type: ignore[arg-type]  # what is not one raises
    except TypeError:
        raise TypeError(f"{name} {given!r}: expected an integer") from None
