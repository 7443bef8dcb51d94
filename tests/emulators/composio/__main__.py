"""`python -m tests.emulators.composio --port 8901` serves until it is ended; prints its address as JSON."""

import argparse
import asyncio
import contextlib
import json

from .emulator import API_KEY, ComposioEmulator


async def serve(options: argparse.Namespace) -> None:
    emulator = ComposioEmulator(
        api_key=options.api_key, port=options.port, v31=not options.no_v31, shape=options.shape
    )
    async with emulator:
        print(json.dumps({"url": emulator.url, "api_key": emulator.api_key}), flush=True)
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.emulators.composio", description="Composio.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--api-key", default=API_KEY)
    parser.add_argument("--no-v31", action="store_true", help="only the older API")
    parser.add_argument("--shape", choices=("2026", "2025"), default="2026", help="of search replies")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
