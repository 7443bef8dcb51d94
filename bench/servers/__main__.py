"""`python -m bench.servers [NAME]...`: the cost of the bundled servers, compared with the minimum.

Owns the command line; each server's figures are in a module of its name.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from importlib import import_module

from bench.__main__ import end_progress, progress
from bench.process import ROOT
from bench.report import Row, show

NAMES = ("sql", "memory", "sessions", "browser", "workbench", "crawl", "video_audio")
OUT = ROOT / "build" / "bench-servers.json"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.servers", description="Measure the bundled servers."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these of {', '.join(NAMES)}")
    names: list[str] = parser.parse_args().names or list(NAMES)
    found: list[Row] = []
    for name in names:
        if name not in NAMES:
            parser.error(f"no server {name!r} is measured; there are: {', '.join(NAMES)}")
        found += import_module(f"bench.servers.{name}").rows(progress)
    end_progress()
    show(found, "Bundled servers")
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps([asdict(row) for row in found], indent=1) + "\n")


if __name__ == "__main__":
    main()
