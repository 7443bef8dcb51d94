"""`python -m tests.aws FOLDER --port 8321`: the function in a folder behind a Function URL on loopback."""

import argparse
import asyncio
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from tests.aws.proxy import Proxy
from tests.aws.rie import emulated
from tests.aws.runtime_api import running
from toolyard.edge.http.server import uvicorn_server

STREAMING = (sys.executable, "-m", "toolyard.edge.aws.runtime")


async def main(folder: Path, port: int, instances: int, stream: bool) -> None:
    variables = {"TOOLYARD_KEY": "a key that every instance has", "PYTHONPATH": f"{Path.cwd()}:{folder}"}
    async with AsyncExitStack() as stack:
        begun = [
            await stack.enter_async_context(
                running(folder, folder / f"function-{number}.log", variables, command=STREAMING)
                if stream
                else emulated(folder, folder / f"function-{number}.log", variables)
            )
            for number in range(instances)
        ]
        await uvicorn_server(Proxy(begun), "127.0.0.1", port).serve()


if __name__ == "__main__":
    # uvicorn raises the signal again when it has ended; by itself that would leave the instances behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    parser = argparse.ArgumentParser(prog="python -m tests.aws", description="A function at a URL.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--instances", type=int, default=4)
    parser.add_argument("--stream", action="store_true", help="our own runtime instead of AWS's")
    options = parser.parse_args()
    asyncio.run(main(options.folder.resolve(), options.port, options.instances, options.stream))
