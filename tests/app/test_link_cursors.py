"""The cursor of a REST tool with `link` paging, behind a gateway with rules."""

from pathlib import Path
from typing import Any

from tests.app.speaker import Json
from tests.app.yard import Yard, yard
from tests.rest.loopback import Asked, Raw, loopback, reply
from toolyard.config import InProcess, ServerConfig
from toolyard.config.callers import AccessConfig, AccessRule

TABLE = """
name = "desk"
base_url = "{url}"

[paging.links]
kind = "link"

[tools.lst]
description = "Lists tickets"
path = "/tickets"
paging = "links"

[tools.lst.parameters.status]
type = "string"
"""
OPEN_ONLY = AccessRule(name="open", allow=("desk/lst",), when="args.status == 'open'")


def repeating(asked: Asked) -> Raw:
    return reply([], Link=f'<?{asked.target.partition("?")[2]}&page=2>; rel="next"')


async def test_a_cursor_evades_no_rule_and_holds_at_another_gateway_with_the_key(tmp_path: Path):
    async def tickets(front: Yard, **arguments: str) -> Json:
        return (await front.call("mcp__desk__lst", arguments)).result

    async with loopback() as api:
        api.on("GET /tickets", repeating)
        table = tmp_path / "desk.toml"
        table.write_text(TABLE.format(url=api.url))
        where = InProcess(module="toolyard.servers.rest", options={"table": str(table)})
        desk = ServerConfig(name="desk", where=where)
        rules: dict[str, Any] = {"access": AccessConfig(default="deny", rules=(OPEN_ONLY,))}
        async with yard(desk, tables=rules) as front:
            cursor = (await tickets(front, status="open"))["structuredContent"]["next"]
            assert (await tickets(front, status="closed", cursor=cursor))["isError"]
            for written in ("status=closed", "status=open&status=closed", "org[]=evil&admin=1"):
                assert (await tickets(front, status="open", cursor=written))["isError"]
        async with yard(desk, tables=rules) as later:
            assert "structuredContent" in await tickets(later, status="open", cursor=cursor)
    assert [asked.target for asked in api.asked] == ["/tickets?status=open", "/tickets?status=open&page=2"]
