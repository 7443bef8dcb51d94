"""What `make run` serves, used as the README says: searched, called, asked, counted."""

import json
import signal
from pathlib import Path

from tests.cli.running import Toolyard

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "toolyard.toml")


def test_the_example_is_searched_called_asked_and_counted_as_the_readme_says(toolyard: Toolyard):
    for use_case in ("which orders are still open", "quais pedidos ainda estão em aberto"):
        found = toolyard("search", use_case, "--limit", "3", "--config", EXAMPLE)
        assert "mcp__shop__list_orders " in found.out
    with toolyard.serving("--config", EXAMPLE) as gateway:
        called = toolyard("call", "mcp__shop__list_orders", "--url", gateway.url)
        shaped = json.loads(called.out.splitlines()[-1])
        assert shaped["truncated"]
        assert shaped["summary"]["item_count"] == 412
        stored, query = shaped["storage"]["resource"], "length([?status=='open'])"
        asked = toolyard("call", "read_result", f"id={stored}", f"query={query}", "--url", gateway.url)
        assert json.loads(asked.out)["value"] == 55
        assert gateway.stop(signal.SIGINT).status in (0, 130)
    counted = toolyard("stats", "--config", EXAMPLE).out
    assert " became " in counted.splitlines()[0]
    assert counted.splitlines()[2].startswith("mcp__shop__list_orders ")
