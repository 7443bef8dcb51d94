"""A real nginx that speaks TLS for services on loopback, with a certificate of an authority of its own."""

import asyncio
import signal
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.programs import find_program
from tests.waiting import until

NAME = "localhost"
_MAIN = """
daemon off;
master_process off;
pid {folder}/pid;
error_log stderr crit;
events {{ worker_connections 128; }}
http {{
    access_log off;
    ssl_certificate {folder}/tls.crt;
    ssl_certificate_key {folder}/tls.key;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {servers}
}}
"""
_SERVER = """
    server {{
        listen 127.0.0.1:{outside} ssl;
        location / {{
            proxy_pass http://127.0.0.1:{inside};
            proxy_http_version 1.1;
            proxy_buffering off;
            proxy_set_header Host $http_host;
            proxy_set_header Connection "";
            proxy_set_header X-Forwarded-Proto $scheme;
        }}
    }}
"""


@asynccontextmanager
async def nginx_with_tls(folder: Path, ports: Mapping[int, int]) -> AsyncIterator[Path]:
    """TLS on each port, for the service on the port that it stands for; the certificate to trust."""
    certificate = folder / "tls.crt"
    openssl = await asyncio.create_subprocess_exec(
        *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
        *("-days", "2", "-keyout", str(folder / "tls.key"), "-out", str(certificate)),
        *("-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"),
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert await openssl.wait() == 0
    servers = "".join(_SERVER.format(outside=outside, inside=inside) for outside, inside in ports.items())
    (folder / "nginx.conf").write_text(_MAIN.format(folder=folder, servers=servers))
    program = find_program("nginx")
    assert program is not None
    arguments = [program, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr"]
    running = await asyncio.create_subprocess_exec(*arguments, stderr=asyncio.subprocess.PIPE)

    async def listens() -> bool:
        with suppress(OSError):
            _, writer = await asyncio.open_connection(
                "127.0.0.1", next(iter(ports)), ssl=trusting(certificate), server_hostname=NAME
            )
            writer.close()
            return True
        return False

    try:
        await until(listens)
        yield certificate
    finally:
        running.send_signal(signal.SIGTERM)
        await running.communicate()


def trusting(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate))
