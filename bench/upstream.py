"""The upstream behind every gateway under test: `python -m bench.upstream --port N` or `--stdio`.

One kit server for all gateways: it speaks both eras, answers in plain JSON and is cheap, so that the
gateway and not the upstream limits the calls per second. The same
object is what the gateway mounts in process, as `bench.upstream:server`.
"""

import argparse

from toolyard.kit import Server

server = Server("upstream", version="1.0.0")


@server.tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool
async def big(mebibytes: int) -> str:
    """A text of that size."""
    return "0123456789abcdef" * (mebibytes * 65536)


def main() -> None:
    from bench.kit_servers import end_with_parent, serve

    parser = argparse.ArgumentParser(prog="python -m bench.upstream", description="Serve the upstream.")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--port", type=int)
    where.add_argument("--stdio", action="store_true")
    options = parser.parse_args()
    end_with_parent()
    if options.stdio:
        server.run_stdio()
    else:
        # Streams that gateways keep open are cut at the end, and each would be reported as an error.
        serve(server.asgi(), options.port, log_level="critical")


if __name__ == "__main__":
    main()
