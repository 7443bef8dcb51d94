"""What training starts from: the vocabulary, and what its tables of vectors are made of.

English vectors are wordllama's table (PyPI) beside what the teacher makes of the word alone; a Portuguese
word starts as the weighted sum of its English renderings.
"""

import json
import re
import struct
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from .corpus import Corpus
from .lexicon import renderings
from .morphology import forms
from .phrasebook import entries
from .sources import BUILD
from .teacher import package

GENERAL_WORDS = 14_000
SEEN_ENGLISH, SEEN_PORTUGUESE = 3, 2
VERBS, FORMS = 450, 12


def write(corpus: Corpus) -> None:
    english = _english(corpus)
    portuguese = _portuguese(corpus, set(english))
    rendered = renderings(corpus)
    place = {word: i for i, word in enumerate(english)}
    rows = [
        (i, place[e], score)
        for i, word in enumerate(portuguese)
        for e, score in rendered.get(word, [])[:5]
        if e in place
    ]
    counts = corpus.english_counts
    table = wordllama(english)
    scale = np.abs(table).max(1) / 127 + 1e-9
    np.savez_compressed(
        BUILD / "start.npz",
        wordllama=np.rint(table / scale[:, None]).astype(np.int8),
        scale=scale.astype(np.float32),
        rendered=np.array(rows, np.float32),
        counts=np.array([counts[word] for word in english], np.float32),
    )
    (BUILD / "words.json").write_text(json.dumps([english, portuguese]))
    print("english", len(english), "portuguese", len(portuguese))


def _english(corpus: Corpus) -> list[str]:
    seen = [w for w, c in corpus.english_counts.most_common() if c >= SEEN_ENGLISH and not w.isdigit()]
    listed = (package() / "vocab.txt").read_text().split()
    general = [w for w in listed if re.fullmatch("[a-z]{2,}", w)][:GENERAL_WORDS]
    return list(dict.fromkeys(seen + general))


def _portuguese(corpus: Corpus, english: set[str]) -> list[str]:
    counts = corpus.portuguese_counts
    seen = [w for w, c in counts.most_common() if c >= SEEN_PORTUGUESE and not w.isdigit()]
    verbs = [w for w in seen if re.fullmatch(r"[a-z]{2,}(ar|er|ir)", w) and w not in english][:VERBS]
    conjugated = [form for verb in verbs for form in forms(verb)[:FORMS]]
    return [w for w in dict.fromkeys([*seen, *entries(), *conjugated]) if w not in english]


def wordllama(vocabulary: list[str]) -> np.ndarray:
    from tokenizers import Tokenizer

    spec = find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise SystemExit("hint: pip install wordllama==0.4.0.post1")
    folder = Path(spec.origin).parent
    raw = (folder / "weights/l2_supercat_256.safetensors").read_bytes()
    header = struct.unpack("<Q", raw[:8])[0]
    table = np.frombuffer(raw[8 + header :], np.float16).reshape(-1, 256).astype(np.float32)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizers/l2_supercat_tokenizer_config.json"))
    return np.stack([table[tokenizer.encode(w, add_special_tokens=False).ids].sum(0) for w in vocabulary])
