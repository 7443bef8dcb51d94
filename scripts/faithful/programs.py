"""Programs of others that are spoken to in raw JSON-RPC: the examples of FastMCP and of the SDK, and servers
from PyPI and npm that `make` has installed anyway.

Each is a command that speaks on its standard input and output. Examples that need a display, an account or a
database are not among them; of those that look things up in the internet (`calls` is
false) no tool is called.
"""

from dataclasses import dataclass
from pathlib import Path

from .sources import ROOT, Sources

FASTMCP_EXAMPLES = (
    "complex_inputs.py",
    "custom_tool_serializer_decorator.py",
    "echo.py",
    "elicitation.py",
    "mount_example.py",
    "simple_echo.py",
    "task_elicitation.py",
    "tool_result_echo.py",
    "apps/approvals/approvals_server.py",
    "apps/contacts/contacts_server.py",
    "apps/form/form_server.py",
    "apps/greet_server.py",
    "apps/inventory/inventory_server.py",
    "apps/patterns_server.py",
    "apps/quiz/quiz_server.py",
    "fastmcp_config/server.py",
    "filesystem-provider/server.py",
    "namespace_activation/server.py",
    "persistent_state/server.py",
    "prompts_as_tools/server.py",
    "resources_as_tools/server.py",
    "search/server_bm25.py",
    "search/server_regex.py",
    "skills/server.py",
    "testing_demo/server.py",
    "versioning/versioned_components.py",
)
SDK_EXAMPLES = (
    "mcpserver/complex_inputs.py",
    "mcpserver/direct_call_tool_result_return.py",
    "mcpserver/echo.py",
    "mcpserver/icons_demo.py",
    "mcpserver/logging_and_progress.py",
    "mcpserver/parameter_descriptions.py",
    "mcpserver/readme-quickstart.py",
    "mcpserver/simple_echo.py",
    "mcpserver/unicode_example.py",
    "snippets/servers/basic_prompt.py",
    "snippets/servers/basic_resource.py",
    "snippets/servers/basic_tool.py",
    "snippets/servers/completion.py",
    "snippets/servers/elicitation.py",
    "snippets/servers/notifications.py",
    "snippets/servers/sampling.py",
    "snippets/servers/structured_output.py",
    "snippets/servers/tool_progress.py",
)
SDK_STORIES = (
    "apps",
    "custom_methods",
    "error_handling",
    "legacy_elicitation",
    "mrtr",
    "pagination",
    "prompts",
    "resources",
    "roots",
    "sampling",
    "schema_validators",
    "stickynotes",
    "streaming",
    "tools",
)
SDK_SERVERS = ("simple-pagination", "simple-prompt", "simple-resource", "simple-tool")
BY_CHANCE = ("toggle-simulated-logging",)
"""What says something else at every turn."""
NPM = {
    "server-everything": ("dist/index.js", "stdio"),
    "server-filesystem": ("dist/index.js", "."),
    "server-memory": ("dist/index.js",),
}
PRESETS = {
    "mcp-server-git": True,
    "mcp-server-time": True,
    "mcp-server-fetch": False,
    "mcp-server-sequential-thinking": True,
    "awslabs.aws-documentation-mcp-server": False,
    "context7-mcp": False,
    "duckduckgo-mcp-server": False,
    "wikipedia-mcp": False,
}


@dataclass(frozen=True)
class Program:
    name: str
    command: tuple[str, ...]
    path: str = ""
    """What it imports from besides."""
    calls: bool = True
    without: tuple[str, ...] = ()
    """Tools that are not called."""


def programs(sources: Sources) -> list[Program]:
    scripts = sources.python.parent
    fastmcp, sdk = sources.folders["fastmcp"] / "examples", sources.folders["mcp"] / "examples"
    python = str(sources.python)
    found = [
        Program(
            f"fastmcp/{name}",
            (str(scripts / "fastmcp"), "run", str(fastmcp / name), "--no-banner", "--skip-env"),
        )
        for name in FASTMCP_EXAMPLES
    ]
    found += [Program(f"sdk/{name}", (str(scripts / "mcp"), "run", str(sdk / name))) for name in SDK_EXAMPLES]
    found += [
        Program(f"sdk/stories/{name}", (python, "-m", f"stories.{name}.server"), str(sdk))
        for name in SDK_STORIES
    ]
    for name in SDK_SERVERS:
        module = f"mcp_{name.replace('-', '_')}"
        found.append(Program(f"sdk/servers/{name}", (python, "-m", module), str(sdk / "servers" / name)))
    node = str(ROOT / ".venv" / "bin" / "node")
    modules = ROOT / "build" / "npm" / "node_modules" / "@modelcontextprotocol"
    for name, (file, *arguments) in NPM.items():
        command = (node, str(modules / name / file), *arguments)
        found.append(Program(f"npm/{name}", command, without=BY_CHANCE))
    found += [
        Program(f"presets/{name}", (str(_preset(name)),), calls=calls) for name, calls in PRESETS.items()
    ]
    return found


def _preset(name: str) -> Path:
    envs = ROOT / "build" / "presets" / "toolyard" / "envs"
    where = [*envs.glob(f"*/bin/{name}"), *envs.glob(f"*/node_modules/.bin/{name}")]
    return next(iter(where), envs / name)
