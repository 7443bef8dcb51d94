"""Where boxes and lines go: a layered (Sugiyama) layout, from left to right.

Edges against the layers are reversed, edges that cross several layers get a place in each, layers are sorted
by their neighbours' positions, and every layer is moved as near to its neighbours as its order allows. Long
chains are folded and big layers split. Does not know about tables, fonts and colours.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct, field

GAP = 28.0
"""Between two boxes of a layer."""
_PASS = 14.0
"""The height of a line that passes through a layer."""
_CHANNEL = 14.0
"""Between two vertical lines between the same layers."""
_MARGIN = 30.0
"""Between a layer and the first of these lines."""
_SWEEPS = 24


class Size(Struct, frozen=True):
    width: float
    height: float


class Edge(Struct, frozen=True):
    """From one box to another; heights are counted from the top of the box."""

    source: int
    source_at: float
    target: int
    target_at: float


class Spot(Struct):
    """A place in a layer: a box, or where a line passes (`box` is None)."""

    box: int | None
    layer: int
    height: float
    y: float = 0.0
    before: list[tuple["Spot", float, float]] = field(default_factory=list[tuple["Spot", float, float]])
    """Neighbours in the layer to the left: the spot, and the line's height at this spot and at that one."""
    after: list[tuple["Spot", float, float]] = field(default_factory=list[tuple["Spot", float, float]])


class Layout(Struct, frozen=True):
    boxes: list[tuple[float, float]]
    """The upper left corner of each."""
    routes: list[list[tuple[float, float]]]
    """The corners of each edge's line, from its source to its target."""
    size: Size


def layout(sizes: Sequence[Size], edges: Sequence[Edge]) -> Layout:
    linked = {end for edge in edges for end in (edge.source, edge.target) if edge.source != edge.target}
    ranks = _ranks(len(sizes), edges, linked)
    spots = {box: Spot(box, ranks[box], sizes[box].height) for box in range(len(sizes)) if box in linked}
    chains = [_chain(edge, spots) if edge.source != edge.target else [] for edge in edges]
    layers = _layers(spots, chains)
    _sort(layers)
    _place(layers)
    xs, widths, channels = _columns(layers, sizes, chains, edges)
    boxes = [(0.0, 0.0)] * len(sizes)
    for box, spot in spots.items():
        boxes[box] = (xs[spot.layer], spot.y)
    bottom = max((spot.y + spot.height for layer in layers for spot in layer), default=0.0)
    right = xs[-1] + widths[-1] if xs else 0.0
    alone = [box for box in range(len(sizes)) if box not in linked]
    width, height = _place_alone(alone, sizes, boxes, right, bottom)
    routes = [
        _route(edge, chain, boxes, sizes, xs, widths, channels)
        for edge, chain in zip(edges, chains, strict=True)
    ]
    return Layout(boxes, routes, Size(width, height))


# Layers


def _ranks(count: int, edges: Sequence[Edge], linked: set[int]) -> list[int]:
    """Puts a box to the right of all boxes that it refers to, except in cycles and very long chains."""
    refers: list[list[int]] = [[] for _ in range(count)]
    for edge in edges:
        if edge.source != edge.target:
            refers[edge.source].append(edge.target)
    ranks: dict[int, int] = {}
    path: set[int] = set()

    def rank(box: int) -> int:
        if box not in ranks:
            path.add(box)
            ranks_before = [rank(target) for target in refers[box] if target not in path]
            path.discard(box)
            ranks[box] = max((one + 1 for one in ranks_before), default=0)
        return ranks[box]

    side = math.ceil(math.sqrt(len(linked)))
    found = _pull_targets([rank(box) for box in range(count)], edges)
    return _split(_folded(found, side + 1), linked, side + 2)


def _pull_targets(ranks: list[int], edges: Sequence[Edge]) -> list[int]:
    """Moves a box that refers to nothing next to the nearest box that refers to it, for shorter lines."""
    refers = {edge.source for edge in edges if edge.source != edge.target}
    for box in range(len(ranks)):
        near = [ranks[edge.source] for edge in edges if edge.target == box and edge.source != box]
        if box not in refers and near:
            ranks[box] = max(0, min(near) - 1)
    return ranks


def _folded(ranks: list[int], most: int) -> list[int]:
    """Limits the number of layers; boxes that refer to each other may then share one."""
    last = max(ranks, default=0)
    return [rank * (most - 1) // last for rank in ranks] if last >= most else ranks


def _split(ranks: list[int], linked: set[int], most: int) -> list[int]:
    """Limits the number of boxes in a layer; the rest moves to a new layer."""
    split = list(ranks)
    layer = 0
    for rank in sorted(set(ranks)):
        boxes = [box for box in range(len(ranks)) if ranks[box] == rank and box in linked]
        for start in range(0, len(boxes), most):
            for box in boxes[start : start + most]:
                split[box] = layer
            layer += 1
    return split


Chain = list[tuple[Spot, float]]
"""The spots of an edge, each with the height of the line in it."""


def _chain(edge: Edge, spots: dict[int, Spot]) -> Chain:
    """From left to right, with a spot in each layer that it passes; within a layer, from source to target."""
    ends = [(spots[edge.source], edge.source_at), (spots[edge.target], edge.target_at)]
    left, right = sorted(ends, key=lambda end: end[0].layer)
    between = [(Spot(None, layer, _PASS), _PASS / 2) for layer in range(left[0].layer + 1, right[0].layer)]
    chain = [left, *between, right]
    if left[0].layer < right[0].layer:
        for (one, one_at), (other, other_at) in pairwise(chain):
            one.after.append((other, one_at, other_at))
            other.before.append((one, other_at, one_at))
    return chain


def _layers(spots: dict[int, Spot], chains: Sequence[Chain]) -> list[list[Spot]]:
    passing = [spot for chain in chains for spot, _ in chain if spot.box is None]
    everything = [*spots.values(), *passing]
    count = max((spot.layer for spot in everything), default=-1) + 1
    return [[spot for spot in everything if spot.layer == layer] for layer in range(count)]


# Heights


def _sort(layers: list[list[Spot]]) -> None:
    """Sorts each layer by the mean position of its neighbours, in alternating directions."""
    _stack(layers)
    for sweep in range(_SWEEPS):
        forth = sweep % 2 == 0
        for layer in layers if forth else reversed(layers):
            layer.sort(key=lambda spot: _wanted(spot, forth, not forth))
            _stack([layer])


def _stack(layers: Sequence[Sequence[Spot]]) -> None:
    for layer in layers:
        y = 0.0
        for spot in layer:
            spot.y = y
            y += spot.height + GAP


def _place(layers: Sequence[Sequence[Spot]]) -> None:
    """Moves spots as near to their neighbours as the order allows, then shifts all of them to start at 0."""
    for _ in range(_SWEEPS):
        for layer in layers:
            _settle(layer)
    if layers:
        # The outer layers follow the last move of their neighbours, which keeps lines straight.
        _settle(layers[-1])
        _settle(layers[0])
    top = min((spot.y for layer in layers for spot in layer), default=0.0)
    for layer in layers:
        for spot in layer:
            spot.y -= top


def _wanted(spot: Spot, left: bool = True, right: bool = True) -> float:
    near = (spot.before if left else []) + (spot.after if right else [])
    if not near:
        return spot.y
    return sum(other.y + other_at - own_at for other, own_at, other_at in near) / len(near)


def _settle(layer: Sequence[Spot]) -> None:
    """Finds positions near the wanted ones that keep order and gaps; conflicting spots move as one."""
    groups: list[tuple[float, int]] = []
    offsets: list[float] = []
    offset = 0.0
    for spot in layer:
        offsets.append(offset)
        mean, count = _wanted(spot) - offset, 1
        while groups and groups[-1][0] > mean:
            other, many = groups.pop()
            mean, count = (mean * count + other * many) / (count + many), count + many
        groups.append((mean, count))
        offset += spot.height + GAP
    means = [mean for mean, count in groups for _ in range(count)]
    for spot, mean, offset in zip(layer, means, offsets, strict=True):
        spot.y = mean + offset


# Widths, and the lines between


Channels = dict[tuple[int, int], float]
"""By the layer to the left and the box referred to: the x of its vertical lines."""


def _columns(
    layers: Sequence[Sequence[Spot]],
    sizes: Sequence[Size],
    chains: Sequence[Chain],
    edges: Sequence[Edge],
) -> tuple[list[float], list[float], Channels]:
    widths = [
        max((sizes[spot.box].width for spot in layer if spot.box is not None), default=0) for layer in layers
    ]
    xs: list[float] = []
    channels: Channels = {}
    x = 0.0
    for number, width in enumerate(widths):
        xs.append(x)
        x += width + _MARGIN
        # Lines to one box share a channel.
        for box in _targets_after(number, chains, edges):
            channels[number, box] = x
            x += _CHANNEL
        x += _MARGIN - _CHANNEL
    return xs, widths, channels


def _targets_after(layer: int, chains: Sequence[Chain], edges: Sequence[Edge]) -> list[int]:
    crossing: dict[int, float] = {}
    for edge, chain in zip(edges, chains, strict=True):
        for (spot, at), _ in pairwise(chain):
            if spot.layer == layer:
                crossing[edge.target] = min(spot.y + at, crossing.get(edge.target, spot.y + at))
    return sorted(crossing, key=lambda box: crossing[box])


def _route(
    edge: Edge,
    chain: Chain,
    boxes: Sequence[tuple[float, float]],
    sizes: Sequence[Size],
    xs: Sequence[float],
    widths: Sequence[float],
    channels: Channels,
) -> list[tuple[float, float]]:
    if not chain:
        return _loop(edge, boxes[edge.source], sizes[edge.source])

    def right_of(spot: Spot) -> float:
        return xs[spot.layer] + (sizes[spot.box].width if spot.box is not None else widths[spot.layer])

    points: list[tuple[float, float]] = []
    for (spot, at), (following, other_at) in pairwise(chain):
        x = channels[spot.layer, edge.target]
        end = xs[following.layer] if following.layer > spot.layer else right_of(following)
        y, other_y = spot.y + at, following.y + other_at
        points += [(right_of(spot), y), (x, y), (x, other_y), (end, other_y)]
    return points if chain[0][0].box == edge.source else points[::-1]


def _loop(edge: Edge, corner: tuple[float, float], size: Size) -> list[tuple[float, float]]:
    x, y = corner[0] + size.width, corner[1]
    start, end = y + edge.source_at, y + edge.target_at
    return [(x, start), (x + 20, start), (x + 20, end), (x, end)]


def _place_alone(
    alone: Sequence[int], sizes: Sequence[Size], boxes: list[tuple[float, float]], right: float, bottom: float
) -> tuple[float, float]:
    """Puts boxes without lines in rows below the others; returns the total size."""
    width = max(right, 900.0)
    x, y, row = 0.0, bottom + GAP if bottom else 0.0, 0.0
    used = right
    for box in alone:
        if x and x + sizes[box].width > width:
            x, y, row = 0.0, y + row + GAP, 0.0
        boxes[box] = (x, y)
        x += sizes[box].width + GAP
        row = max(row, sizes[box].height)
        used = max(used, x - GAP)
    return used, (y + row if alone else bottom)
