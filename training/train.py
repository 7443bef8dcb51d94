"""Trains the table of word vectors: pairs that belong together, and a teacher that has read much more.

Contrastive over in-batch negatives for asks, halves of tools, and translations; and for any request and any
tools the likeness that the teacher sees, for Portuguese requests too, since their English twin is known.
"""

import json
import time
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch.nn.functional import cross_entropy, embedding_bag, kl_div, log_softmax, normalize, softmax

from toolyard.meaning.embedding import Vocabulary

from . import batches
from .batches import Pairs, Reader, Texts
from .corpus import Corpus, first_sentence, tool_text
from .sources import BUILD
from .teacher import Teacher

TEMPERATURE = 0.05
NEAREST = 16


@dataclass(frozen=True)
class Plan:
    name: str
    dim: int = 192
    rate: float = 3e-3
    steps: int = 3000
    batch: int = 1024
    teaching: float = 1.0
    anchor: float = 0.0
    seed: int = 0


@dataclass
class Lessons:
    """What the teacher thinks: requests (and their Portuguese twins) against tools."""

    asked: Texts
    twins: Texts
    has_twin: torch.Tensor
    tools: Texts
    asked_vectors: torch.Tensor
    tool_vectors: torch.Tensor
    nearest: torch.Tensor


def lessons(corpus: Corpus, reader: Reader, teacher: Teacher) -> Lessons:
    asked = [ask["query"] for ask in corpus.asks] + [r["query"] for r in corpus.requests] * 2
    asked += [first_sentence(tool["description"]) for tool in corpus.tools]
    asked = [text for text in asked if text.strip()]
    tools = list({tool_text(t) for t in corpus.tools} | {tool_text(a["tool"]) for a in corpus.asks})
    tools.sort()
    asked_vectors, tool_vectors = teacher.encode(asked), teacher.encode(tools)
    nearest = torch.cat([(some @ tool_vectors.T).topk(NEAREST).indices for some in asked_vectors.split(2048)])
    twins = [corpus.portuguese.get(text, "") for text in asked]
    return Lessons(
        reader.texts(asked),
        reader.texts(twins),
        torch.tensor([bool(twin) for twin in twins], device=nearest.device),
        reader.texts(tools),
        asked_vectors,
        tool_vectors,
        nearest,
    )


def start(dim: int, teacher: Teacher, device: str) -> torch.Tensor:
    """The vectors before training, scaled to a mean length of one half; one more row for padding."""
    stored = np.load(BUILD / "start.npz")
    english, portuguese = json.loads((BUILD / "words.json").read_text())
    table = torch.from_numpy(stored["wordllama"] * stored["scale"][:, None]).to(device)
    alone = teacher.encode(english, 2048)
    alone = normalize(alone - alone.mean(0), dim=1)
    counts = torch.from_numpy(stored["counts"]).to(device)
    rarity = 3e-4 / (3e-4 + (counts + 1) / counts.sum())
    both = torch.cat([table / table.norm(dim=1).mean(), alone], 1) * rarity[:, None]
    _, axes = torch.linalg.eigh(both.T @ both)
    vectors = both @ axes[:, -dim:].flip(1)
    rendered = torch.from_numpy(stored["rendered"]).to(device)
    sums = torch.zeros(len(portuguese), dim, device=device)
    sums.index_add_(0, rendered[:, 0].long(), vectors[rendered[:, 1].long()] * rendered[:, 2:3])
    whole = torch.cat([vectors, sums, torch.zeros(1, dim, device=device)])
    return whole * (0.5 / whole.norm(dim=1).mean())


class Student:
    def __init__(self, plan: Plan, table: torch.Tensor) -> None:
        self.plan = plan
        self.start = table
        self.table = torch.nn.Parameter(table.clone())
        self.padding = len(table) - 1

    def vectors(self, ids: torch.Tensor, dropped: float) -> torch.Tensor:
        lost = torch.rand(ids.shape, device=ids.device) < dropped
        # A short text keeps all its words: without one of two it would be another text.
        lost &= (ids != self.padding).sum(1, keepdim=True) > 4
        ids = ids.masked_fill(lost, self.padding)
        return normalize(embedding_bag(ids, self.table, mode="sum", padding_idx=self.padding), dim=1)

    def pairing(self, pairs: Pairs) -> torch.Tensor:
        at = pairs.draw(self.plan.batch)
        left, right = self.vectors(pairs.left[at], 0.1), self.vectors(pairs.right[at], 0.05)
        scores = left @ right.T / TEMPERATURE
        group = pairs.group[at]
        same = (group[:, None] == group[None]).fill_diagonal_(False)
        scores = scores.masked_fill(same, -1e4)
        right_ones = torch.arange(len(at), device=at.device)
        return (cross_entropy(scores, right_ones) + cross_entropy(scores.T, right_ones)) / 2

    def lesson(self, known: Lessons) -> torch.Tensor:
        device = known.nearest.device
        at = torch.randint(len(known.asked), (self.plan.batch // 2,), device=device)
        near = known.nearest[at].gather(1, torch.randint(NEAREST, (len(at), 2), device=device))
        tools = torch.cat(
            [near.flatten(), torch.randint(len(known.tools), (self.plan.batch,), device=device)]
        )
        thought = known.asked_vectors[at] @ known.tool_vectors[tools].T / TEMPERATURE
        asked, answers = known.asked[at], self.vectors(known.tools[tools], 0.0)
        total = self._divergence(asked, answers, thought)
        foreign = known.has_twin[at]
        if self.plan.teaching and foreign.any():
            total = total + self._divergence(known.twins[at][foreign], answers, thought[foreign])
        return total / 2

    def _divergence(self, ids: torch.Tensor, answers: torch.Tensor, thought: torch.Tensor) -> torch.Tensor:
        mine = self.vectors(ids, 0.1) @ answers.T / TEMPERATURE
        return kl_div(log_softmax(mine, 1), softmax(thought, 1), reduction="batchmean")


def train(plan: Plan, student: Student, data: dict[str, Pairs], known: Lessons) -> None:
    torch.manual_seed(plan.seed)
    optimiser = torch.optim.Adam([student.table], lr=plan.rate, betas=(0.9, 0.99))
    began = time.monotonic()
    for step in range(plan.steps):
        for group in optimiser.param_groups:
            group["lr"] = plan.rate * min(1, (step + 1) / 100) * (1 - step / plan.steps)
        parts = [student.pairing(pairs) for pairs in data.values()]
        parts.append(plan.teaching * student.lesson(known))
        loss = sum(parts, torch.zeros((), device=student.table.device))
        if plan.anchor:
            loss = loss + plan.anchor * ((student.table - student.start) ** 2).sum(1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % 500 == 499 or step == plan.steps - 1:
            shown = " ".join(f"{part.item():.3f}" for part in parts)
            print(plan.name, step + 1, shown, f"{time.monotonic() - began:.0f} s", flush=True)


def save(table: torch.Tensor, path: str) -> None:
    rows = table.detach()[:-1].float().cpu().numpy()
    scales = np.abs(rows).max(1) / 127 + 1e-9
    english, portuguese = json.loads((BUILD / "words.json").read_text())
    np.savez_compressed(
        path,
        words=np.frombuffer("\n".join(english + portuguese).encode(), np.uint8),
        rows=np.rint(rows / scales[:, None]).astype(np.int8),
        scales=scales.astype(np.float16),
    )


def run(plans: list[Plan], out: str) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    corpus, teacher = Corpus.read(), Teacher(device)
    english, portuguese = json.loads((BUILD / "words.json").read_text())
    reader = Reader(Vocabulary(english + portuguese), device)
    began = time.monotonic()
    data = {
        "asks": batches.asks(corpus, reader),
        "tools": batches.tools(corpus, reader),
        "bilingual": batches.bilingual(corpus, reader),
    }
    known = lessons(corpus, reader, teacher)
    print(
        "ready", {name: len(pairs.left) for name, pairs in data.items()}, len(known.asked), len(known.tools)
    )
    print(f"{time.monotonic() - began:.0f} s", flush=True)
    for plan in plans:
        student = Student(plan, start(plan.dim, teacher, device))
        if plan.steps == 0:
            save(student.table, f"{out}/{plan.name}.npz")
            continue
        train(plan, student, data, known)
        save(student.table, f"{out}/{plan.name}.npz")
        print("saved", json.dumps(asdict(plan)), flush=True)
