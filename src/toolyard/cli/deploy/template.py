"""`template.yaml` for `sam deploy`: the function, its URL, its log and its role, checked with cfn-lint.

Values from outside are written as JSON strings, which are valid YAML.
"""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ...extras import install_command
from ..json_values import JsonMapping, as_object
from ..ui.messages import CommandError, warn

MEMORY_WIPING = {
    "PYTHONMALLOC": "malloc",
    "MALLOC_PERTURB_": "165",
    "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
}
"""Freed memory is overwritten at once, so that no key of a caller stays in it."""
STREAMING = {"AWS_LAMBDA_EXEC_WRAPPER": "/var/task/bootstrap"}


class FunctionPlan(Struct, frozen=True):
    name: str
    python: str
    arch: str
    servers: tuple[str, ...]
    memory: int = 512
    timeout: int = 30
    concurrency: int = 10
    """0: no limit."""
    log_days: int = 30
    stream: bool = False
    variables: dict[str, str] = {}
    secrets: tuple[str, ...] = ()
    """Variables whose values are parameters of the template and never shown."""


def render_template(plan: FunctionPlan) -> str:
    return f"""\
# Made by `toolyard deploy lambda`.
AWSTemplateFormatVersion: "2010-09-09"
Transform: AWS::Serverless-2016-10-31
Description: {_text(f"MCP endpoint of {', '.join(plan.servers)}")}

Parameters:
  ToolyardKey:
    Type: String
    NoEcho: true
    MinLength: 16
    Description: Signs session ids, so that every instance of the function accepts them. Keep it secret.
{_parameters(plan)}
Resources:
  Function:
    Type: AWS::Serverless::Function
    Properties:
      FunctionName: {_text(plan.name)}
      CodeUri: function.zip
      Handler: function.handler
      Runtime: python{plan.python}
      Architectures: [{plan.arch}]
      MemorySize: {plan.memory}
      Timeout: {plan.timeout}
{_concurrency(plan)}\
      Role: !GetAtt Role.Arn
      LoggingConfig:
        LogGroup: !Ref Logs
        LogFormat: JSON
      Environment:
        Variables:
{_variables(plan)}
      FunctionUrlConfig:
        # Callers send their own key, which the function requires and forwards. SAM adds the permissions of a
        # public URL.
        AuthType: NONE
        # No Cors here: the function sends the headers itself, and they must not come twice.
        InvokeMode: {"RESPONSE_STREAM" if plan.stream else "BUFFERED"}

  Logs:
    Type: AWS::Logs::LogGroup
    DeletionPolicy: Delete
    UpdateReplacePolicy: Delete
    Properties:
      LogGroupName: {_text(f"/aws/lambda/{plan.name}")}
      RetentionInDays: {plan.log_days}

  Role:
    Type: AWS::IAM::Role
    Properties:
      AssumeRolePolicyDocument:
        Version: "2012-10-17"
        Statement:
          - Effect: Allow
            Principal: {{Service: lambda.amazonaws.com}}
            Action: sts:AssumeRole
      Policies:
        - PolicyName: write-own-log
          PolicyDocument:
            Version: "2012-10-17"
            Statement:
              - Effect: Allow
                Action: [logs:CreateLogStream, logs:PutLogEvents]
                Resource: !GetAtt Logs.Arn

Outputs:
  Url:
    Description: The base URL; the endpoint is mcp below it.
    Value: !GetAtt FunctionUrl.FunctionUrl
  Arn:
    Value: !GetAtt Function.Arn
  Name:
    Value: !Ref Function
"""


def parameter(variable: str) -> str:
    """The name of the parameter for a secret variable: `TIFLUX_API_KEY` is `TifluxApiKey`."""
    return "".join(part.capitalize() for part in variable.split("_"))


def _parameters(plan: FunctionPlan) -> str:
    return "".join(
        f"  {parameter(name)}:\n    Type: String\n    NoEcho: true\n    Description: The variable {name}.\n"
        for name in plan.secrets
    )


def _concurrency(plan: FunctionPlan) -> str:
    return f"      ReservedConcurrentExecutions: {plan.concurrency}\n" if plan.concurrency else ""


def _variables(plan: FunctionPlan) -> str:
    given: dict[str, str] = {**MEMORY_WIPING, **(STREAMING if plan.stream else {}), **plan.variables}
    lines = ["TOOLYARD_KEY: !Ref ToolyardKey"]
    lines += [f"{name}: {_text(value)}" for name, value in given.items()]
    lines += [f"{name}: !Ref {parameter(name)}" for name in plan.secrets]
    return "\n".join(f"          {line}" for line in lines)


def _text(value: Any) -> str:
    return json.dumps(value)


PROGRAM = "import sys; from cfnlint.runner import main; sys.exit(main())"
INSTALL = f"{install_command('deploy')}, or skip the check with --no-lint"


def require_linter() -> None:
    if find_spec("cfnlint") is None:
        raise CommandError("cfn-lint, which checks the template, is not installed", INSTALL)


def lint(file: Path) -> None:
    """CommandError if the template has errors; other findings are warnings."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "--format", "json", "--", str(file)],
        capture_output=True,
        text=True,
    )
    try:
        found: list[Any] = msgspec.json.decode(done.stdout or "[]", type=list[Any])
    except msgspec.DecodeError:
        raise CommandError("cfn-lint failed", INSTALL, details=done.stdout + done.stderr) from None
    if done.returncode and not found:
        raise CommandError("cfn-lint failed", INSTALL, details=done.stderr)
    errors = [_lint_message(one) for one in map(as_object, found) if one.get("Level") == "Error"]
    for one in map(as_object, found):
        if one.get("Level") != "Error":
            warn(f"{file.name}: {_lint_message(one)}")
    if errors:
        raise CommandError(f"{file.name} has {len(errors)} errors", *errors)


def _lint_message(one: JsonMapping) -> str:
    start = as_object(as_object(one.get("Location")).get("Start")).get("LineNumber", "?")
    return f"line {start}: {one.get('Message', '')} ({as_object(one.get('Rule')).get('Id', '?')})"
