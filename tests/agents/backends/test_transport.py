"""How a request reaches a model's API: proxies of the environment, and certificates."""

import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from tests.agents.backends.conversations import request, retries, text_of
from toolyard.agents.backends import open_model
from toolyard.agents.backends.base import ModelError, ModelReply
from toolyard.agents.backends.transport import proxy_for

ANSWER = {"choices": [{"message": {"content": "Through."}, "finish_reason": "stop"}]}


@asynccontextmanager
async def answering(tls: ssl.SSLContext | None = None) -> AsyncGenerator[tuple[int, list[str]]]:
    """A server that answers any request with a completion, and keeps the hosts that were asked for."""
    asked: list[str] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.headers["Host"])
        return web.json_response(ANSWER)

    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        yield runner.addresses[0][1], asked
    finally:
        await runner.cleanup()


async def ask(environ: Mapping[str, str]) -> ModelReply:
    model = open_model("openai:m", environ=environ, retries=retries(attempts=1))
    try:
        return await model.respond(request())
    finally:
        await model.close()


async def test_the_proxy_of_the_environment_is_used() -> None:
    async with answering() as (port, asked):
        environ = {"OPENAI_BASE_URL": "http://models.invalid/v1", "http_proxy": f"127.0.0.1:{port}"}
        assert text_of(await ask(environ)) == "Through."
    assert asked == ["models.invalid"]


async def test_a_proxy_that_is_not_there_is_unreachable() -> None:
    with pytest.raises(ModelError) as raised:
        await ask({"OPENAI_BASE_URL": "https://models.invalid/v1", "HTTPS_PROXY": "http://127.0.0.1:9"})
    assert raised.value.kind == "unreachable"


@pytest.mark.parametrize(
    ("environ", "proxy"),
    [
        ({}, None),
        ({"HTTPS_PROXY": "http://proxy:3128"}, "http://proxy:3128"),
        ({"HTTP_PROXY": "http://proxy:3128"}, None),
        ({"ALL_PROXY": "proxy:3128"}, "http://proxy:3128"),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "localhost,.example.com"}, None),
        ({"HTTPS_PROXY": "http://proxy:3128", "no_proxy": "*"}, None),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "other.com"}, "http://proxy:3128"),
    ],
)
def test_proxies_are_chosen_as_curl_does(environ: dict[str, str], proxy: str | None) -> None:
    assert proxy_for("https://api.example.com:8443/v1", environ) == proxy


def test_a_kind_of_proxy_that_is_not_supported_is_named() -> None:
    with pytest.raises(ModelError, match="'socks5'"):
        proxy_for("https://api.example.com", {"ALL_PROXY": "socks5://proxy:1080"})


async def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    async with answering(_self_signed(tmp_path)) as (port, asked):
        with pytest.raises(ModelError, match="certificate") as raised:
            await ask({"OPENAI_BASE_URL": f"https://127.0.0.1:{port}/v1"})
    assert raised.value.kind == "invalid"
    assert "SSL_CERT_FILE" in raised.value.hint
    assert asked == []


def _self_signed(folder: Path) -> ssl.SSLContext:
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem = folder / "server.pem"
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    pem.write_bytes(
        key.private_bytes(encoding, form, serialization.NoEncryption()) + certificate.public_bytes(encoding)
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pem)
    return context
