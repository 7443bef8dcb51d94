"""The same tool by `run-mcp-servers-with-aws-lambda`, wired to a Function URL as its README does it."""

import os
import sys
from pathlib import Path

from mcp.client.stdio import StdioServerParameters
from mcp_lambda import LambdaFunctionURLEventHandler, StdioServerAdapterRequestHandler

_server = StdioServerParameters(
    command=sys.executable, args=[str(Path(__file__).with_name("server.py"))], env=dict(os.environ)
)
_handler = LambdaFunctionURLEventHandler(StdioServerAdapterRequestHandler(_server))


def handler(event, context):
    return _handler.handle(event, context)
