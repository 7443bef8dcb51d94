"""The cost of ten thousand tools: building, searching, memory, starting from disk, adding a server.

`python -m bench.search.scale FOLDER` is what is measured; it prints its figures as JSON. Times are
CPU of that process and the least of three: others on a shared machine cost a process cache as well as time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Any

from bench.process import ROOT
from bench.search import sets

if TYPE_CHECKING:
    from toolyard.search.documents import ToolDocument
    from toolyard.search.index import ToolIndex

TOOLS, MORE = 10_000, 100
QUERIES_OF_A_SET = 400
LIMIT = 5
NEWCOMER = "newcomer"


def measured(folder: Path) -> dict[str, float]:
    """Measures in a separate process, for its memory."""
    command = [sys.executable, "-m", "bench.search.scale", str(folder)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    return json.loads(done.stdout)


def run(folder: Path) -> dict[str, float]:
    tools, more = _tools(folder)
    queries = [text for task in sets.tasks(folder) for text in task.queries[:QUERIES_OF_A_SET]]
    before = _resident()
    figures = {"import_ms": 1e3 * _cpu(_imports)}
    from bench.search.ours import by_server, document
    from toolyard.meaning.embedding import TextEmbedding
    from toolyard.search.index import ToolIndex

    semantic = TextEmbedding.load()
    semantic.encode(["warm"])
    semantic.translate(["quente"])
    figures["embedding_mib"] = _resident() - before
    documents = [document(tool, f"{tool['server']} {tool['name']}") for tool in tools]
    newcomer = [document(tool | {"server": NEWCOMER}, f"{NEWCOMER} {at}") for at, tool in enumerate(more)]
    servers = by_server(documents)
    before, index = _resident(), ToolIndex(semantic)
    first = _cpu(lambda: _filled(index, servers))
    figures["index_mib"] = _resident() - before
    figures["build_s"] = min(first, *(_cpu(lambda: _filled(ToolIndex(semantic), servers)) for _ in range(2)))
    figures |= _queries(index, queries)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "index"
        figures["save_ms"] = 1e3 * _cpu(lambda: index.save(path))
        figures["disk_mib"] = path.stat().st_size / 2**20
        figures["load_ms"] = 1e3 * min(_cpu(lambda: ToolIndex.load(path, semantic)) for _ in range(3))
    moves = [
        (_cpu(lambda: _filled(index, {NEWCOMER: newcomer})), _cpu(lambda: _without(index, NEWCOMER)))
        for _ in range(3)
    ]
    figures["add_ms"], figures["remove_ms"] = (1e3 * min(each) for each in zip(*moves, strict=True))
    return figures | {"tools": len(documents), "servers": len(servers), "queries": len(queries)}


def _tools(folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Real tools, then copies under other names."""
    found = sets.tools(folder)
    for at in range(max(0, TOOLS + MORE - len(found))):
        found.append(found[at] | {"server": f"{found[at]['server']} {at}"})
    return found[:TOOLS], found[TOOLS : TOOLS + MORE]


def _imports() -> None:
    import toolyard.search.index  # noqa: F401


def _filled(index: ToolIndex, servers: dict[str, list[ToolDocument]]) -> None:
    from toolyard.search.documents import ToolQuery

    for server, documents in servers.items():
        index.put(server, documents)
    index.search(ToolQuery("merge in what was put"), 1)


def _without(index: ToolIndex, server: str) -> None:
    from toolyard.search.documents import ToolQuery

    index.remove(server)
    index.search(ToolQuery("merge in what was removed"), 1)


def _queries(index: ToolIndex, queries: Sequence[str]) -> dict[str, float]:
    from toolyard.search.documents import ToolQuery

    rounds = [
        [_cpu(lambda text=text: index.search(ToolQuery(text), LIMIT)) for text in queries] for _ in range(3)
    ]
    times = sorted(1e3 * min(each) for each in zip(*rounds, strict=True))
    return {
        "query_mean_ms": mean(times),
        "query_p50_ms": median(times),
        "query_p99_ms": times[int(0.99 * len(times))],
    }


def _cpu(work: Callable[[], Any]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def _resident() -> float:
    """MiB of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 2**20


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]))))
