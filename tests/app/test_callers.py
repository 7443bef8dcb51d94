"""A gateway that asks who calls: endpoints, pages, downloads, and changes of `[auth]` while it runs."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.app.speaker import Speaker, speaking
from tests.app.test_caller_keys import BROUGHT, INSIDE, SHOP, keyed
from tests.app.yard import KEY, Yard, at, yard
from tests.serving import call_asgi, http, modern
from toolyard.app import Gateway, asgi
from toolyard.callers.keys import ApiKeys, KeyHolder
from toolyard.config import Config, ConfigError, GatewayConfig, load
from toolyard.config.callers import AuditConfig, AuthConfig, ProxyConfig

KEYS = AuthConfig(keys=True, required=True)


async def key(front: Yard, name: str = "anna", **holder: Any) -> dict[str, str]:
    keys: ApiKeys = front.gateway.callers.keys(front.gateway.config)
    issued = await keys.create(KeyHolder(name=name, **holder))
    return {"Authorization": f"Bearer {issued.text}"}


async def status(front: Yard, path: str, headers: dict[str, str]) -> int:
    return (await front.client.raw(http("GET", path, headers))).status


async def test_every_endpoint_wants_a_key():
    async with speaking(Speaker("modern")) as url, yard(at(url), tables={"auth": KEYS}) as front:
        anna = await key(front)
        for path, tool in (("/mcp", "mcp__up__echo"), ("/mcp/up", "echo")):
            refused = await front.call(tool, {"text": "hi"}, path=path)
            assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
            assert await front.says(tool, {"text": "hi"}, path=path, headers=anna) == "hi"
            assert (await front.modern("tools/list", path=path)).status == 401


async def test_pages_show_everything_to_who_is_known_only():
    async with yard(INSIDE, tables={"auth": KEYS}) as front:
        anna = await key(front)
        public = await front.client.raw(http("GET", "/health"))
        assert public.json == {"status": "ok"}
        full = await front.client.raw(http("GET", "/health", anna))
        assert "servers" in full.json
        assert await status(front, "/metrics", {}) == 403
        assert await status(front, "/metrics", {"Authorization": "Bearer ty_x"}) == 403
        assert await status(front, "/metrics", anna) == 200


async def test_a_download_needs_no_key_but_its_link():
    async with yard(INSIDE, tables={"auth": KEYS}) as front:
        assert await status(front, "/results/not-a-link", {}) == 404


async def test_a_caller_on_this_machine_needs_no_key_unless_it_is_required():
    async with yard(INSIDE, tables={"auth": AuthConfig(keys=True)}) as front:
        assert (await front.modern("tools/list")).status == 200
        assert (await front.modern("tools/list", headers={"X-Forwarded-For": "1.2.3.4"})).status == 401
    public = "https://yard.example"
    async with yard(INSIDE, tables={"auth": AuthConfig(keys=True)}, public_url=public) as front:
        assert (await front.modern("tools/list")).status == 401


async def test_a_proxy_names_callers():
    proxy = AuthConfig(proxy=ProxyConfig(addresses=("127.0.0.1",)))
    async with yard(INSIDE, tables={"auth": proxy}) as front:
        assert (await front.modern("tools/list")).status == 401
        assert (await front.modern("tools/list", headers={"X-Forwarded-User": "anna"})).status == 200
    elsewhere = AuthConfig(proxy=ProxyConfig(addresses=("10.0.0.1",)), required=True)
    async with yard(INSIDE, tables={"auth": elsewhere}) as front:
        assert (await front.modern("tools/list", headers={"X-Forwarded-User": "anna"})).status == 401


async def test_behind_a_configured_proxy_nobody_is_the_local_user():
    proxies = ("127.0.0.1",)
    async with yard(INSIDE, tables={"auth": AuthConfig(keys=True)}, proxies=proxies) as front:
        assert (await front.modern("tools/list")).status == 401
        assert (await front.modern("tools/list", headers={"X-Forwarded-For": "127.0.0.1"})).status == 401
        anna = await key(front)
        assert (await front.modern("tools/list", headers=anna)).status == 200
    # Whom a proxy names is still believed by the address of its connection, and of nobody else's.
    named = {"X-Forwarded-User": "anna", "X-Forwarded-For": "192.0.2.7"}
    for addresses, status in ((("127.0.0.1",), 200), (("192.0.2.7",), 401)):
        auth = AuthConfig(proxy=ProxyConfig(addresses=addresses))
        async with yard(INSIDE, tables={"auth": auth}, proxies=proxies) as front:
            assert (await front.modern("tools/list", headers=named)).status == status


async def test_an_audit_has_the_address_of_the_client_behind_a_configured_proxy(tmp_path: Any):
    tables = {"auth": KEYS, "audit": AuditConfig(url=f"file:{tmp_path / 'audit'}")}
    async with yard(INSIDE, tables=tables, proxies=("127.0.0.1",)) as front:
        wrong = {"Authorization": "Bearer ty_x", "X-Forwarded-For": "198.51.100.1, 192.0.2.7"}
        assert (await front.modern("tools/list", headers=wrong)).status == 401
    (file,) = (tmp_path / "audit").glob("*.jsonl")
    assert b"192.0.2.7" in file.read_bytes()
    assert b"198.51.100.1" not in file.read_bytes()
    assert b"127.0.0.1" not in file.read_bytes()


async def test_keys_for_servers_are_no_keys_of_the_gateway_and_go_on_as_before():
    async with yard(keyed(INSIDE, "x-shop-key"), tables={"auth": KEYS}) as front:
        refused = await front.call("mcp__inside__keys_of", headers={"x-shop-key": SHOP})
        assert refused.status == 401
        anna = await key(front)
        said = await front.says("mcp__inside__keys_of", headers={**BROUGHT, **anna})
    assert said == f"inside {[('x-shop-key', SHOP[::-1])]}"


async def test_a_changed_table_takes_effect_while_it_runs():
    async with yard(INSIDE) as front:
        assert (await front.modern("tools/list")).status == 200
        await front.gateway.reload(replace(front.gateway.config, auth=KEYS))
        assert (await front.modern("tools/list")).status == 401
        anna = await key(front)
        assert (await front.modern("tools/list", headers=anna)).status == 200
        await front.gateway.reload(replace(front.gateway.config, auth=AuthConfig()))
        assert (await front.modern("tools/list")).status == 200


def gateway(folder: Any, auth: AuthConfig = AuthConfig(), key: bytes | None = KEY) -> Gateway:  # noqa: B008
    return Gateway(Config(gateway=GatewayConfig(state_dir=str(folder), view="all"), auth=auth), key)


async def asked(app: Any) -> int:
    headers, message = modern("tools/list")
    return (await call_asgi(app, headers, json.dumps(message).encode())).status


async def test_an_exposed_gateway_never_loses_its_lock(tmp_path: Any):
    built = gateway(tmp_path, AuthConfig(keys=True))
    app = asgi(built, exposed=True)
    await app.start()
    try:
        assert await asked(app) == 401
        await built.reload(replace(built.config, auth=AuthConfig()))
        assert await asked(app) == 401
    finally:
        await app.close()


async def test_open_to_all_serves_strangers_and_still_knows_keys(tmp_path: Any):
    built = gateway(tmp_path, AuthConfig(keys=True, required=True))
    app = asgi(built, exposed=True, open_to_all=True)
    await app.start()
    try:
        assert await asked(app) == 200
    finally:
        await app.close()


async def test_keys_need_a_key_of_the_gateway_that_lasts(tmp_path: Any):
    built = gateway(tmp_path, AuthConfig(keys=True), key=None)
    with pytest.raises(ConfigError, match="a key of the gateway that lasts"):
        asgi(built)
    await built.close()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[auth]\nrequired = true", "no way to show who one is"),
        (
            '[auth]\nkeys = true\n[servers.a]\nurl = "http://a/mcp"\ncaller_keys = ["Authorization"]',
            "takes callers' keys from 'authorization', which \\[auth\\] needs",
        ),
        ("[auth]\nkey = true", "key"),
        ('[auth.proxy]\naddresses = ["proxy.example"]', "no IP address or network"),
    ],
)
def test_a_table_that_cannot_be_meant_is_an_error(tmp_path: Any, text: str, error: str):
    file = tmp_path / "toolyard.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=error):
        load(file)
