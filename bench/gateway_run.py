"""The gateway's part of the benchmark, in order: ours, the peers, many upstreams, a huge result.

Owns the order and how many calls each gets; what it measures comes from `bench.gateway`,
`bench.beside` and `bench.yard`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench import beside, gateway, yard
from bench.gateway_report import Everything
from bench.peers import Peer
from bench.rounds import Progress, merged

LOADS = (64, 8)
PEER_ROUNDS = 3
# The same number of calls in shorter turns, because neighbours in time are disturbed alike on a shared
# machine.
TURNS = 3


def run(peers: Sequence[Peer], *, calls: int, rounds: int, quick: bool, progress: Progress) -> Everything:
    with gateway.upstream() as address:
        turn = max(1, calls // TURNS)
        parts = [
            gateway.ours(address, connections=LOADS, calls=turn, rounds=rounds * TURNS, progress=progress)
        ]
        for peer in peers:
            # One at a time: an idle gateway would add cost to the measured one.
            few = 1 if quick else PEER_ROUNDS
            parts.append(beside.peer(peer, address, connections=LOADS, rounds=few, progress=progress))
        huge = yard.huge(address, progress=progress)
    return Everything(
        merged(parts), LOADS, {peer.key: peer.title for peer in peers}, yard.lists(progress=progress), huge
    )
