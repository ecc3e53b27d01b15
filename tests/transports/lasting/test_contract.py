"""Lasting links keep the contract of a transport, also over a road that loses connections."""

from __future__ import annotations

from tests.transports.lasting.hubs import lasting
from transports.testing import check_transport


async def test_lasting_links_keep_the_contract() -> None:
    await check_transport(lasting, lasting=True)
