"""Runs the peers: installs each, starts it in front of the same upstream, and loads it with few calls.

A peer that cannot be measured is recorded with the reason, never silently.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.connection import WrongReply
from bench.load import ERAS, connect, pump
from bench.peers import Peer, Place
from bench.process import ROOT, free_port, running, tree_cpu_seconds, tree_resident_bytes
from bench.rounds import (
    FIRST,
    WARMUP_CALLS,
    Figures,
    Measured,
    Progress,
    Subject,
    measured_round,
    wait_for_tool,
)

START_LIMIT_S = 180.0
ERA_LIMIT_S = 5.0
# Peers do 10 to 100 calls a second: as many as they manage in this time, but some for every connection.
ROUND_S = 4.0
CALLS_PER_CONNECTION = 1.5
WARMUP_S = 1.0


def peer(
    peer: Peer, address: str, *, connections: Sequence[int], rounds: int, progress: Progress
) -> Measured:
    """Installs, starts and loads one peer; its failures become a reason in the result."""
    found = Measured()
    try:
        progress(f"peers: installing {peer.title} (once)")
        programs = peer.install()
        with tempfile.TemporaryDirectory() as folder:
            place = Place(programs, Path(folder), free_port(), address)
            _run_peer(peer, place, connections, rounds, progress, found)
    except Exception as error:  # other people's programs can fail in any way
        found.missing[peer.key, ""] = str(error) or type(error).__name__
    return found


def _run_peer(
    peer: Peer,
    place: Place,
    connections: Sequence[int],
    rounds: int,
    progress: Progress,
    found: Measured,
) -> None:
    progress(f"peers: starting {peer.title}")
    logs = ROOT / "build" / "bench"
    logs.mkdir(parents=True, exist_ok=True)
    start = peer.start(place)
    with running(
        peer.key,
        start.command,
        place.port,
        env=start.env,
        cwd=place.folder,
        log=logs / f"{peer.key}.log",
        limit_s=START_LIMIT_S,
    ) as process:
        target = replace(peer.reach(place), tool="")
        # Every peer speaks the legacy era. Once it serves its tool there, one request shows the other era.
        target = wait_for_tool(process, target, "legacy", START_LIMIT_S)
        subjects: list[Subject] = []
        for era in ERAS:
            try:
                wait_for_tool(process, target, era, ERA_LIMIT_S)
                subjects.append(Subject(peer.key, era, target, partial(tree_cpu_seconds, process.pid)))
            except WrongReply as error:
                found.missing[peer.key, era] = str(error)
        for load in connections:
            for subject in subjects:
                try:
                    found.figures[peer.key, subject.era, load] = _few_calls(subject, load, rounds, progress)
                except (WrongReply, OSError) as error:
                    found.missing[peer.key, f"{subject.era}, {load} connections"] = str(error)
        found.resident[peer.key] = tree_resident_bytes(process.pid)


def _few_calls(subject: Subject, connections: int, rounds: int, progress: Progress) -> Figures:
    progress(f"peers: loading {subject.name} {subject.era}, {connections} connections")
    figures = Figures()
    clients = connect(subject.target, subject.era, connections, handshake=True)
    try:
        pace = pump(clients, range(connections)).per_second
        pump(clients, range(min(WARMUP_CALLS, int(pace * WARMUP_S))))
        calls = max(int(connections * CALLS_PER_CONNECTION), min(1000, int(pace * ROUND_S)))
        for turn in range(rounds):
            first = FIRST + turn * calls
            measured_round(subject, clients, range(first, first + calls), figures)
    finally:
        for client in clients:
            client.close()
    return figures
