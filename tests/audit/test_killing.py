"""`kill -9` under load: whatever was acknowledged is in the audit. `make audit-kill` does it twenty times."""

from tests.audit.killing import kill_writers


async def test_three_kills_lose_nothing_that_was_acknowledged(url: str):
    report = await kill_writers(url, kills=3, most=1000, seed=16)
    assert report.missing == []
    assert report.damages == []
    assert report.chains == 3
    assert report.recorded >= report.acknowledged > 0
