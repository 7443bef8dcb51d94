"""A table in another language: the texts of an overlay put where the English ones are."""

from typing import Any

from msgspec.structs import replace

from .table import Lookup, Overlay, Parameter, Table, Tool, ToolTexts


def laid_over(table: Table, overlay: Overlay) -> Table:
    gate = table.gate
    if gate is not None and overlay.denied:
        gate = replace(gate, denied=overlay.denied)
    return replace(
        table,
        title=overlay.title or table.title,
        instructions=overlay.instructions or table.instructions,
        gate=gate,
        errors={**table.errors, **overlay.errors},
        shared=_described(table.shared, overlay.shared),
        lookups={name: _called(lookup, overlay.lookups.get(name)) for name, lookup in table.lookups.items()},
        tools={name: _told(table, tool, overlay.tools.get(name)) for name, tool in table.tools.items()},
    )


def _described(parameters: dict[str, Parameter], texts: dict[str, str]) -> dict[str, Parameter]:
    return {
        name: replace(parameter, description=texts.get(name) or parameter.description)
        for name, parameter in parameters.items()
    }


def _called(lookup: Lookup, what: str | None) -> Lookup:
    return replace(lookup, what=what) if what else lookup


def _told(table: Table, tool: Tool, texts: ToolTexts | None) -> Tool:
    if texts is None:
        return tool
    # A shared parameter that this tool describes in its own words becomes one of its own.
    own = [name for name in tool.use if name in texts.parameters]
    parameters = {**tool.parameters, **{name: table.shared[name] for name in own}}
    changes: dict[str, Any] = {
        "title": texts.title or tool.title,
        "description": texts.description or tool.description,
        "parameters": _described(parameters, texts.parameters),
        "use": tuple(name for name in tool.use if name not in own),
        "errors": {**tool.errors, **texts.errors},
        "result": replace(tool.result, said=texts.said or tool.result.said),
    }
    return replace(tool, **changes)
