"""`python -m tests.everything --port 8321` serves HTTP on loopback, `--stdio` serves one client on stdio."""

import argparse

from tests.everything.server import everything


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.everything", description="Conformance fixtures.")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--port", type=int, help="serve http://127.0.0.1:PORT/mcp")
    where.add_argument("--stdio", action="store_true", help="serve on stdin and stdout")
    options = parser.parse_args()
    if options.stdio:
        everything().run_stdio()
    else:
        everything().run_http(host="127.0.0.1", port=options.port)


if __name__ == "__main__":
    main()
