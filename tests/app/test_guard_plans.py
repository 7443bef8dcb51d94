"""What the guard remembers of a caller and a tool: it ends with the rules that it came from."""

from msgspec.structs import replace

from tests.app.speaker import Speaker, speaking
from tests.app.yard import at, yard
from toolyard.config.callers import AccessConfig, AccessRule, LimitRule, LimitsConfig

ALLOWED = AccessConfig(rules=(AccessRule(name="all", allow=("*",)),))
DESCRIBED = AccessConfig(rules=(AccessRule(name="look", preview=("up/echo",)), *ALLOWED.rules))
DENIED = AccessConfig(rules=(AccessRule(name="no", deny=("up/echo",)), *ALLOWED.rules))
LIMITS = LimitsConfig(rules=(LimitRule(name="slots", concurrent=5),))


async def test_changed_rules_hold_for_a_call_that_was_allowed_before():
    tables = {"access": ALLOWED, "limits": LIMITS}
    async with speaking(Speaker("modern")) as url, yard(at(url), tables=tables) as front:
        config = front.gateway.config

        async def echo() -> str:
            return str((await front.call("mcp__up__echo", {"text": "hi"})).json)

        allowed = [await echo() for _ in range(3)]
        assert all("'text': 'hi'" in reply and "error" not in reply for reply in allowed)
        await front.gateway.reload(replace(config, access=DESCRIBED))
        assert "'look'" in await echo()
        await front.gateway.reload(replace(config, access=DENIED))
        assert "Unknown tool" in await echo()
        await front.gateway.reload(config)
        assert "'text': 'hi'" in await echo()
