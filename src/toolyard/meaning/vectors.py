"""Which vectors of an owner are nearest to another: a set in memory, searched from one end to the other.

Owns the numbers of the vectors and who they belong to, nothing of what they stand for: that is known by its
key. Each number is kept in eight bits, with one scale a vector, which moves a similarity by less than a
hundredth. There is no index on purpose: 100,000 vectors are compared in some milliseconds, without building
or tuning anything, and nothing near is missed. Safe to use from several threads.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from threading import Lock
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
OwnerT = TypeVar("OwnerT", bound=Hashable)
NumberT = TypeVar("NumberT", bound=np.generic)

# Rows compared at once: as floats they stay inside the processor's cache.
_BATCH = 1_024
_FIRST_ROOM = 16


class VectorSet(Generic[OwnerT]):
    """Unit vectors of one length, by owner and key. A key that is put again is replaced."""

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self._owners: dict[OwnerT, _Rows] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        with self._lock:
            return sum(len(rows) for rows in self._owners.values())

    def count(self, owner: OwnerT) -> int:
        with self._lock:
            rows = self._owners.get(owner)
            return len(rows) if rows else 0

    def put(self, owner: OwnerT, key: int, vector: Floats) -> None:
        self.put_all(owner, [key], vector.reshape(1, -1))

    def put_all(self, owner: OwnerT, keys: Sequence[int], vectors: Floats) -> None:
        """One row a key. Many at once cost far less than one by one."""
        if vectors.shape != (len(keys), self.dim):
            raise ValueError(f"{len(keys)} keys of {self.dim} numbers each, but vectors of {vectors.shape}")
        small, scales = _in_eight_bits(vectors)
        with self._lock:
            rows = self._owners.setdefault(owner, _Rows(self.dim))
            rows.put(keys, small, scales)

    def remove(self, owner: OwnerT, key: int) -> None:
        """Forget one; nothing happens where there is none."""
        with self._lock:
            rows = self._owners.get(owner)
            if rows is not None:
                rows.remove(key)
                if not len(rows):
                    del self._owners[owner]

    def clear(self, owner: OwnerT) -> None:
        with self._lock:
            self._owners.pop(owner, None)

    def nearest(
        self, owner: OwnerT, vector: Floats, limit: int, least: float = 0.0
    ) -> list[tuple[int, float]]:
        """The owner's keys with a similarity of `least` or more, the nearest first."""
        with self._lock:
            rows = self._owners.get(owner)
            return rows.nearest(np.ascontiguousarray(vector, np.float32), limit, least) if rows else []


class _Rows:
    """One owner's. The first `len` places of each array are used; the room doubles when it is full."""

    def __init__(self, dim: int) -> None:
        self._small = np.empty((_FIRST_ROOM, dim), np.int8)
        self._scales = np.empty(_FIRST_ROOM, np.float32)
        self._keys = np.empty(_FIRST_ROOM, np.int64)
        self._places: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._places)

    def put(self, keys: Sequence[int], small: npt.NDArray[np.int8], scales: Floats) -> None:
        self._make_room(len(self) + len(keys))
        at = [self._places.setdefault(key, len(self._places)) for key in keys]
        self._small[at] = small
        self._scales[at] = scales
        self._keys[at] = keys

    def remove(self, key: int) -> None:
        place = self._places.pop(key, None)
        if place is None:
            return
        last = len(self._places)
        if place != last:
            # The last one moves into the gap: nothing else has to.
            self._small[place] = self._small[last]
            self._scales[place] = self._scales[last]
            self._keys[place] = moved = self._keys[last]
            self._places[int(moved)] = place

    def nearest(self, vector: Floats, limit: int, least: float) -> list[tuple[int, float]]:
        likeness = self._likeness(vector)
        (near,) = np.nonzero(likeness >= least)
        if 0 < limit < len(near):
            near = near[np.argpartition(likeness[near], -limit)[-limit:]]
        # Equals in the order of their keys, so that an answer does not depend on what was removed before.
        order = np.lexsort((self._keys[near], -likeness[near]))[:limit]
        return [(int(self._keys[i]), float(likeness[i])) for i in near[order]]

    def _likeness(self, vector: Floats) -> Floats:
        count = len(self)
        found = np.empty(count, np.float32)
        floats = np.empty((min(_BATCH, count), len(vector)), np.float32)
        for start in range(0, count, _BATCH):
            end = min(start + _BATCH, count)
            batch = floats[: end - start]
            batch[:] = self._small[start:end]
            np.dot(batch, vector, out=found[start:end])
        found *= self._scales[:count]
        return found

    def _make_room(self, wanted: int) -> None:
        room = len(self._keys)
        if wanted > room:
            room = max(wanted, room * 2)
            self._small = _longer(self._small, room)
            self._scales = _longer(self._scales, room)
            self._keys = _longer(self._keys, room)


def _longer(array: npt.NDArray[NumberT], room: int) -> npt.NDArray[NumberT]:
    longer = np.empty((room, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


def _in_eight_bits(vectors: Floats) -> tuple[npt.NDArray[np.int8], Floats]:
    scales = np.abs(vectors).max(axis=1, initial=0.0).astype(np.float32) / np.float32(127)
    divisors = np.where(scales > 0, scales, 1).astype(np.float32)
    return np.rint(vectors / divisors[:, None]).astype(np.int8), scales
