"""`python -m tests.emulators.tiflux --port 0` serves until it is ended; its first line is its URL.

`--tenant KEY` adds one more tenant each time, `--denied KEY` one that may not use the MCP endpoint.
"""

import argparse
import asyncio
import contextlib

from .emulator import API_KEY, TifluxEmulator


async def serve(options: argparse.Namespace) -> None:
    emulator = TifluxEmulator(options.port, options.key)
    for key in options.tenant:
        emulator.add_tenant(key)
    for key in options.denied:
        emulator.add_tenant(key, enable_mcp=False)
    async with emulator:
        print(emulator.url, flush=True)
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.emulators.tiflux", description="TiFlux's API.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--key", default=API_KEY, help="of the first tenant; empty for none")
    parser.add_argument("--tenant", action="append", default=[], metavar="KEY")
    parser.add_argument("--denied", action="append", default=[], metavar="KEY")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
