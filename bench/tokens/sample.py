"""Which tools are mounted and which tasks are done with them: real ones, from the public sets.

The tasks are LiveMCPBench's, written by people for 70 real servers; around the tools they need stand those of
other real servers, and for the largest yard web APIs too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from bench.search import sets

TASKS_OF = "livemcpbench"
MAX_TASKS = 40


class Task(NamedTuple):
    text: str
    needed: list[dict[str, Any]]
    """A tool for each step."""


class Sample(NamedTuple):
    tools: list[dict[str, Any]]
    """Those that the tasks need first, then real ones, then others; some cannot be served."""
    tasks: list[Task]
    mounted: int
    """How many are to be mounted."""


def sample(folder: Path, count: int) -> Sample:
    """As many tasks as can be done with half of so many tools, and at most MAX_TASKS."""
    (source,) = [task for task in sets.tasks(folder) if task.name == TASKS_OF]
    chosen: dict[int, dict[str, Any]] = {}
    tasks: list[Task] = []
    for text, groups in zip(source.queries, source.needed, strict=True):
        steps = [min(group) for group in groups]
        if len(tasks) == MAX_TASKS or len({*chosen, *steps}) > count // 2:
            continue
        chosen |= {at: source.tools[at] for at in steps}
        tasks.append(Task(text, [source.tools[at] for at in steps]))
    tools = {_key(tool): tool for tool in [*chosen.values(), *sets.tools(folder)]}
    return Sample(list(tools.values()), tasks, count)


def _key(tool: dict[str, Any]) -> str:
    return f"{tool['server']} {tool['name']}"
