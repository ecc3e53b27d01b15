"""Purse that a case prepares after ``@``."""

from __future__ import annotations

from pathlib import Path

import pytest

from parties.keeping.paying.payments import Release
from parties.keeping.purse import open_purse
from protocol import PartyId
from protocol.accounting.spending import Cost
from protocol.errors import UsageError

ONE, TWO, THREE = (letter * 32 for letter in (b"a", b"b", b"c"))
"""Ids of surveys."""


def pay(folder: Path, ids: list[str] | None, survey: bytes, cost: Cost, attempt: int = 1) -> None:
    """Pay from a purse for an attempt of a survey."""
    session = bytes([attempt]) + survey[1:]
    what = Release(survey=survey, session=session, party=PartyId("anna"), drawn=survey)
    with open_purse(folder) as purse:
        purse.pay(purse.payers(ids), what, cost=cost, heard=b"")


def purse(here: Path, name: str) -> None:
    """Make a purse: three spellings paid for two surveys, and people without ids for a third."""
    folder = here / name
    pay(folder, ["Zed", "bob"], ONE, Cost(2.0))
    with open_purse(folder) as opened:
        with pytest.raises(UsageError) as asked:
            opened.check_spellings(["zed"])
        code = str(asked.value).partition("--different ")[2][:8]
        opened.settle(["zed"], same=False, different=code)
    pay(folder, ["zed"], TWO, Cost(1.0, 1e-6, (9,)))
    pay(folder, ["zed"], TWO, Cost(1.0, 1e-6, (9,)), attempt=2)
    pay(folder, None, THREE, Cost(0.5))
