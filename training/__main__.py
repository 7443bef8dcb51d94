"""`python -m training <step>`: the steps from public data to the files that the package ships, in order.

See README.md beside this file for the data, the environment and what each step takes.
"""

import argparse
import random
import re
from pathlib import Path

from .sources import BUILD

SHIPPED = Path("src/toolyard/meaning")
TABLES = BUILD / "tables"
# How much of each kind of English text is put into Portuguese: an hour of one processor in all.
SHORT, BANK_AND_CLINC, OPERATIONS = 220, 7_000, 7_000


def _gather(pool: Path) -> None:
    from .gather import gather

    gather(pool)


def _translate() -> None:
    from .corpus import Corpus, first_sentence
    from .teacher import package
    from .translate import kept, translate

    corpus, chance = Corpus.read(), random.Random(3)
    banked = ("clinc/oos-eval", "PolyAI-LDN/task-specific-datasets")
    asked = [ask["query"] for ask in corpus.asks if ask["source"] not in banked]
    others = [ask["query"] for ask in corpus.asks if ask["source"] in banked]
    first = {s: [first_sentence(t["description"]) for t in corpus.tools if t["source"] == s] for s in _TOOLS}
    for rows in (others, *first.values()):
        chance.shuffle(rows)
    listed = (package() / "vocab.txt").read_text().split()
    counts = corpus.english_counts
    single = [w for w in listed if re.fullmatch("[a-z]{3,}", w)][:9000] + [
        w for w in counts if counts[w] >= 5
    ]
    verbs = [f"to {word}" for word, _ in counts.most_common(4500)]
    sentences = [text for text in asked if len(text) < SHORT] + others[:BANK_AND_CLINC]
    sentences += [text for source, most in _TOOLS.items() for text in first[source][:most]]
    translate([*sentences, *single, *verbs], "en-pt")
    written = re.findall(
        r"[^\W\d_]{3,}", " ".join([p["pt"] for p in corpus.parallel] + [*kept("en-pt").values()])
    )
    translate([word.lower() for word in written], "pt-en")


_TOOLS = {"mcp-pool": 5_000, "openapi": OPERATIONS, "apizoo": 1_500}


def _start() -> None:
    from . import initial, teacher
    from .corpus import Corpus

    teacher.shrink()
    initial.write(Corpus.read())


def _train() -> None:
    from .train import Plan, run

    TABLES.mkdir(parents=True, exist_ok=True)
    plans = [Plan("start", steps=0), Plan("c3", teaching=3, steps=2500), Plan("c5", rate=1e-3, steps=2000)]
    run(plans, str(TABLES))


def _finish() -> None:
    from .corpus import Corpus
    from .finish import finish

    finish(Corpus.read(), TABLES, SHIPPED / "embedding.npz")


def _lexicon() -> None:
    from .corpus import Corpus
    from .lexicon import write, write_other
    from .phrasebooks import LANGUAGES

    write(Corpus.read(), SHIPPED / "lexicons" / "pt.txt")
    for language in LANGUAGES:
        write_other(language, SHIPPED / "lexicons" / f"{language}.txt")


def _evaluate(sets: Path) -> None:
    from toolyard.meaning.embedding import TextEmbedding

    from .evaluate import evaluate

    evaluate(TextEmbedding.load(), sets)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training", description=__doc__)
    steps = parser.add_subparsers(dest="step", required=True)
    steps.add_parser("gather").add_argument(
        "--pool", type=Path, required=True, help="tools.jsonl of mcp-pool"
    )
    for name in ("translate", "lexicon", "start", "train", "finish"):
        steps.add_parser(name)
    steps.add_parser("evaluate").add_argument("--sets", type=Path, required=True)
    asked = vars(parser.parse_args())
    step = asked.pop("step")
    {
        "gather": _gather,
        "translate": _translate,
        "lexicon": _lexicon,
        "start": _start,
        "train": _train,
        "finish": _finish,
        "evaluate": _evaluate,
    }[step](**asked)


if __name__ == "__main__":
    main()
