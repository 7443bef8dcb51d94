"""Reads tools as JSON and prints their schemas as Pydantic AI shows them to models of OpenAI.

Runs in an environment of its own.
"""

import json
import sys

from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer

shown = {
    tool["name"]: OpenAIJsonSchemaTransformer(tool["inputSchema"], strict=None).walk()
    for tool in json.load(sys.stdin)
}
print(json.dumps(shown))
