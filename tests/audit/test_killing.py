"""`kill -9` under load: whatever was acknowledged is in the audit. `make audit-kill` does it twenty times."""

from tests.audit.killing import kill_gateways, kill_writers


async def test_three_kills_lose_nothing_that_was_acknowledged(url: str):
    report = await kill_writers(url, kills=3, most=1000, seed=16)
    assert report.missing == []
    assert report.damages == []
    assert report.chains == 3
    assert report.recorded >= report.acknowledged > 0


async def test_three_kills_of_a_gateway_lose_no_call_that_was_answered():
    report = await kill_gateways("file:", kills=3, most=300, seed=16)
    assert report.missing == []
    assert report.damages == []
    assert report.chains == 3
    assert report.recorded >= report.acknowledged > 0
