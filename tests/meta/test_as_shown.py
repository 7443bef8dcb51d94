"""The meta tools as a host shows them to its model, after it has changed their schemas."""

import json
import subprocess
from pathlib import Path

from toolyard.views.dialects.native import NativeDialect

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "build/envs/agents/bin/python"
PROGRAM = Path(__file__).parent / "schemas_as_shown.py"


def test_models_of_openai_are_shown_by_pydantic_ai_that_arguments_take_anything():
    listed = [tool.shown() for tool in NativeDialect().tools()]
    done = subprocess.run(
        [PYTHON, PROGRAM], input=json.dumps(listed), capture_output=True, text=True, check=True
    )
    shown = json.loads(done.stdout)
    assert set(shown) == {tool["name"] for tool in listed}
    given = shown["call_tool"]["properties"]["arguments"]
    several = shown["call_tools"]["properties"]["calls"]["items"]["properties"]["arguments"]
    assert given["additionalProperties"] is several["additionalProperties"] is True
    for tool in listed:
        assert set(shown[tool["name"]]["properties"]) == set(tool["inputSchema"]["properties"])
