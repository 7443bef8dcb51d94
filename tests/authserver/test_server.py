"""The whole way of a login with a client by hand, and every step of it that can be wrong."""

from pathlib import Path

from tests.authserver.yard import login_yard, registered


async def test_a_client_gets_in_with_what_a_person_allowed(tmp_path: Path):
    async with login_yard(tmp_path) as yard:
        client = await registered(yard)
        tokens = await client.log_in()
        assert tokens["token_type"] == "Bearer"
        assert tokens["scope"] == "mcp"
        assert (await yard.call(tokens["access_token"])).status == 200
        assert (await yard.call("tyl_x")).status == 401
