"""Purses in folders, paid from by ids."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from parties.keeping.paying.payers import Payers
from parties.keeping.paying.payments import Recalled, Release, heard_digest
from parties.keeping.purse import Purse, open_purse, purse_in
from protocol import PartyId
from protocol.accounting.spending import Cost


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def release(survey: str, party: str = "anna") -> Release:
    """The answer of a party at the first attempt at a survey."""
    session, drawn = (digest(f"{what} {survey}") for what in ("session", "drawn"))
    return Release(survey=digest(survey), session=session, party=PartyId(party), drawn=drawn)


def recalled(survey: str, epsilon: float) -> Recalled:
    """Spending that a party's folder recalls."""
    return Recalled(
        release=release(survey),
        group=None,
        epsilon=epsilon,
        delta=0.0,
        honest=(),
        heard=0,
        digest=heard_digest(b""),
    )


def pay(folder: Path, ids: Sequence[str] | None, survey: str, epsilon: float) -> None:
    """Pay, without asking who is who."""
    with open_purse(folder) as purse:
        purse.pay(purse.payers(ids), release(survey), cost=Cost(epsilon), heard=b"")


def read(folder: Path) -> Purse:
    purse = purse_in(folder)
    assert purse is not None
    return purse


def spent(folder: Path, *ids: str) -> list[float]:
    """What each of these has spent, one after the other."""
    purse = read(folder)
    return [float(purse.spent(purse.payers([each])).epsilon[0]) for each in ids]


def spent_as_one(folder: Path, survey: str | None = None) -> float:
    """The sum of all that was paid from a purse, or of that for one survey."""
    about = None if survey is None else digest(survey)
    found = read(folder).spent(Payers(None), lambda one: about in (None, one.survey))
    return found.most.epsilon
