"""Where boxes and lines go: layers from left to right, what is referred to on the left.

The way of Sugiyama: lines that would run against the layers are turned round, those that cross several get a
place in each, layers are sorted by where their neighbours are, and every layer is moved as near to its
neighbours as its order allows. Knows nothing of tables, fonts and colours.
"""

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct, field

GAP = 28.0
"""Between two boxes of a layer."""
_PASS = 14.0
"""The room of a line that passes through a layer."""
_CHANNEL = 14.0
"""Between two lines that go up or down between the same layers."""
_MARGIN = 30.0
"""Between a layer and the first of these lines."""
_SWEEPS = 12


class Size(Struct, frozen=True):
    width: float
    height: float


class Edge(Struct, frozen=True):
    """From a box to another, each end at a height of its own, counted from the box's top."""

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
    """Neighbours in the layer to the left: the spot, our height at which the line ends, and its."""
    after: list[tuple["Spot", float, float]] = field(default_factory=list[tuple["Spot", float, float]])


class Layout(Struct, frozen=True):
    boxes: list[tuple[float, float]]
    """The left upper corner of each."""
    routes: list[list[tuple[float, float]]]
    """The corners of each edge's line, from its source to its target."""
    size: Size


def layout(sizes: Sequence[Size], edges: Sequence[Edge]) -> Layout:
    linked = {end for edge in edges for end in (edge.source, edge.target) if edge.source != edge.target}
    ranks = _ranks(len(sizes), edges)
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


def _ranks(count: int, edges: Sequence[Edge]) -> list[int]:
    """A box is right of all that it refers to, except where that goes round in a circle."""
    refers: list[list[int]] = [[] for _ in range(count)]
    for edge in edges:
        if edge.source != edge.target:
            refers[edge.source].append(edge.target)
    ranks: dict[int, int] = {}
    path: set[int] = set()

    def rank(box: int) -> int:
        if box in ranks:
            return ranks[box]
        path.add(box)
        ranks_below = [rank(target) for target in refers[box] if target not in path]
        path.discard(box)
        ranks[box] = max((one + 1 for one in ranks_below), default=0)
        return ranks[box]

    found = [rank(box) for box in range(count)]
    return _pulled(found, edges)


def _pulled(ranks: list[int], edges: Sequence[Edge]) -> list[int]:
    """What refers to nothing goes next to the nearest that refers to it: shorter lines."""
    refers = {edge.source for edge in edges if edge.source != edge.target}
    for box in range(len(ranks)):
        near = [ranks[edge.source] for edge in edges if edge.target == box and edge.source != box]
        if box not in refers and near:
            ranks[box] = max(0, min(near) - 1)
    return ranks


def _chain(edge: Edge, spots: dict[int, Spot]) -> list[Spot]:
    """The spots of an edge from left to right, with one in each layer that it passes."""
    source, target = spots[edge.source], spots[edge.target]
    left, left_at, right, right_at = target, edge.target_at, source, edge.source_at
    if target.layer > source.layer:
        left, left_at, right, right_at = source, edge.source_at, target, edge.target_at
    between = [Spot(None, layer, _PASS) for layer in range(left.layer + 1, right.layer)]
    chain = [left, *between, right]
    heights = [left_at, *([_PASS / 2] * len(between)), right_at]
    for (one, one_at), (other, other_at) in pairwise(zip(chain, heights, strict=True)):
        one.after.append((other, one_at, other_at))
        other.before.append((one, other_at, one_at))
    return chain


def _layers(spots: dict[int, Spot], chains: Sequence[Sequence[Spot]]) -> list[list[Spot]]:
    passing = [spot for chain in chains for spot in chain if spot.box is None]
    everything = [*spots.values(), *passing]
    count = max((spot.layer for spot in everything), default=-1) + 1
    return [[spot for spot in everything if spot.layer == layer] for layer in range(count)]


# Heights


def _sort(layers: list[list[Spot]]) -> None:
    """Each layer by the middle of its neighbours, to and fro."""
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
    """As near to the neighbours as the order allows, and then all of it down from the top."""
    for _ in range(_SWEEPS):
        for layer in layers:
            _settle(layer)
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
    """The heights nearest to the wanted ones that keep order and gaps: neighbours in conflict move as one."""
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
"""By the layer to the left and the box referred to: where its lines go up and down."""


def _columns(
    layers: Sequence[Sequence[Spot]],
    sizes: Sequence[Size],
    chains: Sequence[Sequence[Spot]],
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
        # Lines to one box may share their way.
        for box in _targets_after(number, chains, edges):
            channels[number, box] = x
            x += _CHANNEL
        x += _MARGIN - _CHANNEL
    return xs, widths, channels


def _targets_after(layer: int, chains: Sequence[Sequence[Spot]], edges: Sequence[Edge]) -> list[int]:
    crossing = {
        edge.target: next(spot.y for spot in chain if spot.layer == layer)
        for edge, chain in zip(edges, chains, strict=True)
        if chain and chain[0].layer <= layer < chain[-1].layer
    }
    return sorted(crossing, key=lambda box: crossing[box])


def _route(
    edge: Edge,
    chain: Sequence[Spot],
    boxes: Sequence[tuple[float, float]],
    sizes: Sequence[Size],
    xs: Sequence[float],
    widths: Sequence[float],
    channels: Channels,
) -> list[tuple[float, float]]:
    if not chain:
        return _loop(edge, boxes[edge.source], sizes[edge.source])
    points: list[tuple[float, float]] = []
    for spot, following in pairwise(chain):
        _, at, other_at = next(
            link for link in spot.after if link[0] is following and _is_end(link, spot, edge)
        )
        x = channels[spot.layer, edge.target]
        end = xs[spot.layer] + (sizes[spot.box].width if spot.box is not None else widths[spot.layer])
        points += [(end, spot.y + at), (x, spot.y + at), (x, following.y + other_at)]
        points.append((xs[following.layer], following.y + other_at))
    # From left to right so far.
    return points if chain[0].box == edge.source else points[::-1]


def _is_end(link: tuple[Spot, float, float], spot: Spot, edge: Edge) -> bool:
    """Two boxes may be linked twice: the link is the one with the edge's own heights."""
    other, at, other_at = link
    heights = {edge.source: edge.source_at, edge.target: edge.target_at}
    ours = spot.box is None or heights.get(spot.box) == at
    theirs = other.box is None or heights.get(other.box) == other_at
    return ours and theirs


def _loop(edge: Edge, corner: tuple[float, float], size: Size) -> list[tuple[float, float]]:
    x, y = corner[0] + size.width, corner[1]
    start, end = y + edge.source_at, y + edge.target_at
    return [(x, start), (x + 20, start), (x + 20, end), (x, end)]


def _place_alone(
    alone: Sequence[int], sizes: Sequence[Size], boxes: list[tuple[float, float]], right: float, bottom: float
) -> tuple[float, float]:
    """Boxes without lines, in rows under the others; the size of all."""
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
