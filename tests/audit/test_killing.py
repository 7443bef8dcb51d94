"""`kill -9` under load: whatever was acknowledged is in the audit. `make audit-kill` does it twenty times."""

import pytest

from tests.audit.killing import kill_gateways, kill_writers


async def test_three_kills_lose_nothing_that_was_acknowledged(url: str):
    report = await kill_writers(url, kills=3, most=1000, seed=16)
    assert report.missing == []
    assert report.damages == []
    assert report.chains == 3
    assert report.recorded >= report.acknowledged > 0


@pytest.mark.parametrize("store", ["file:", "sqlite:"])
async def test_two_kills_of_a_gateway_lose_no_call_that_was_answered(store: str):
    report = await kill_gateways(store, kills=2, most=300, seed=16)
    assert report.missing == []
    assert report.damages == []
    assert report.chains == 2
    assert "in 2 chains: intact." in report.said
    assert report.recorded >= report.acknowledged > 0
