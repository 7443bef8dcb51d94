"""`python -m bench.vault`: what a look-up in the vault costs, with many principals, and a rotation.

Owns nothing but the measurement. CPU is that of our process alone, the best of several rounds. The store is
an SQLite file; a warm look-up does not ask it.
"""

import os
import random
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from toolyard.state import open_state
from toolyard.vault.base import SecretAddress
from toolyard.vault.master_keys import FileSource, MasterKeys
from toolyard.vault.rotation import rotate
from toolyard.vault.vault import Vault

PRINCIPALS, UPSTREAMS, TENANTS = 10_000, 5, 100
CALLS, ROUNDS = 20_000, 5
TOKEN = os.urandom(1500)


def addresses(principals: int) -> list[SecretAddress]:
    return [
        SecretAddress(f"tenant {who % TENANTS}", "token", f"server {at}", f"tenant/user:{who}", "https://issuer")
        for who in range(principals)
        for at in range(UPSTREAMS)
    ]


async def measured(vault: Vault, asked: list[SecretAddress], max_age: float) -> float:
    """Microseconds of CPU of one look-up."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        for address in asked:
            await vault.read(address, max_age)
        best = min(best, (time.process_time() - began) / len(asked))
    return best * 1e6


async def main(principals: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = FileSource(folder / "vault.key", makes_itself=True)
        vault = Vault(open_state("sqlite:", folder), MasterKeys(source), owns_state=True)
        everything = addresses(principals)
        for address in everything:
            await vault.put(address, TOKEN)
        asked = random.Random(1).choices(everything, k=min(CALLS, len(everything)))
        warm = await measured(vault, asked, 3600)
        cold = await measured(vault, asked[:2000], 0)
        began = time.perf_counter()
        done = await rotate(vault)
        passed = time.perf_counter() - began
        await vault.close()
    print(f"{len(everything)} secrets of {len(TOKEN)} bytes, {done.total} tenants")
    print(f"look-up, warm: {warm:.1f} µs of CPU; from SQLite: {cold:.0f} µs of CPU")
    print(f"rotation of the master key: {passed * 1000:.0f} ms, {done.rewrapped} keys of tenants")


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else PRINCIPALS))
