"""The word lists from other languages to English that the lexical half of the search uses.

Portuguese has three witnesses: how sentences align, what the translation engine makes of the word alone, and
our phrasebook. Spanish, French and German have the first and the last.
"""

import json
import re
from collections import Counter
from pathlib import Path

from toolyard.meaning.embedding import plain, words

from . import phrasebooks
from .alignment import aligned
from .corpus import Corpus
from .morphology import forms
from .phrasebook import entries
from .sources import BUILD
from .translate import kept

_EMPTY = """
a an the of to in for with by at from is are be was were will would it its this that these those i you we
they he she me my your our their his her s t and or if as not no do does did has have had can could should
there here so than then too very just also been being am please let us them him
"""
# Portuguese words that hold a sentence together; as a rare form of a verb (para, como) they would mislead.
_HOLDING = """
a o as os um uma uns umas de do da dos das em no na nos nas num numa por pelo pela pelos pelas para pra pro
com sem e ou mas que se como ao aos nao sim eu tu ele ela eles elas me te lhe vos meu minha meus minhas teu
tua seu sua seus suas isto isso este esta estes estas esse essa esses essas aquele aquela foi ser sou era
sao ha ja so va vai sobre entre ate mais menos muito pouco
"""
EMPTY, HOLDING = frozenset(_EMPTY.split()), frozenset(_HOLDING.split())
MOST = 4
COMMON_FORMS = 16
LEAST, LEAST_SHARE = 0.14, 0.22


def lexicon(corpus: Corpus) -> dict[str, list[str]]:
    ours = entries()
    scores = _scores(corpus)
    found: dict[str, list[str]] = {}
    for word in {*scores, *ours}:
        renderings = list(ours.get(word, []))
        ranked = scores.get(word, Counter()).most_common(8)
        top = ranked[0][1] if ranked else 0.0
        for english, score in ranked:
            if score >= max(LEAST, top * LEAST_SHARE) and english not in renderings:
                renderings.append(english)
        renderings = [english for english in renderings if english != word][
            : max(MOST, len(ours.get(word, [])))
        ]
        if renderings and len(word) > 1 and word not in HOLDING:
            found[word] = renderings
    return found


def renderings(corpus: Corpus) -> dict[str, list[tuple[str, float]]]:
    """The same with weights that sum to one, for the embedding to start from."""
    ours, scores = entries(), _scores(corpus)
    found: dict[str, list[tuple[str, float]]] = {}
    for word in {*scores, *ours}:
        score = Counter(scores.get(word, Counter()))
        top = max(score.values(), default=0.5)
        for english in ours.get(word, []):
            score[english] += top
        total = sum(score.values())
        found[word] = [(english, s / total) for english, s in score.most_common(6)]
    return found


def _scores(corpus: Corpus) -> dict[str, Counter[str]]:
    counts, english = corpus.portuguese_counts, corpus.english_counts
    by_alignment = aligned(corpus.bilingual())
    by_engine = {plain(pt).lower(): words(en) for pt, en in kept("pt-en").items() if " " not in pt}
    scores: dict[str, Counter[str]] = {}
    for word, count in counts.items():
        score: Counter[str] = Counter()
        trust = count / (count + 3)
        for rendering, chance in by_alignment.get(word, []):
            score[rendering] += chance * trust
        for rendering in by_engine.get(word, []):
            score[rendering] += 0.4 / len(by_engine[word]) + 0.1
        scores[word] = Counter({e: s for e, s in score.items() if e not in EMPTY and english[e] >= 3})
    lemmas = _lemmas(scores, counts)
    for form, lemma in lemmas.items():
        own = scores.setdefault(form, Counter())
        for rendering, score in scores[lemma].items():
            own[rendering] += 0.5 * score
    return {w: s for w, s in scores.items() if s and not w.isdigit() and (counts[w] >= 2 or w in lemmas)}


def _lemmas(scores: dict[str, Counter[str]], counts: Counter[str]) -> dict[str, str]:
    """Form -> infinitive, for the infinitives that were seen often enough to be trusted."""
    verbs = [
        w for w, c in counts.items() if c >= 4 and re.fullmatch(r"[a-z]{2,}(ar|er|ir)", w) and scores.get(w)
    ]
    found: dict[str, str] = {}
    for verb in sorted(verbs, key=lambda w: -counts[w]):
        for form in forms(verb)[:COMMON_FORMS]:
            if form != verb and len(form) > 3:
                found.setdefault(form, verb)
    return found


LEAST_CHANCE, LEAST_COUNT, OTHERS_MOST = 0.16, 3, 3


def other(language: str, pairs: list[tuple[str, str]]) -> dict[str, list[str]]:
    """The word list of a language that has no translation engine, from (English, its own) sentences."""
    ours, aligns = phrasebooks.entries(language), aligned(pairs)
    counts = Counter(word for _, text in pairs for word in words(text))
    english = Counter(word for text, _ in pairs for word in words(text))
    found: dict[str, list[str]] = {}
    for word in {*aligns, *ours}:
        renderings, count = list(ours.get(word, [])), counts[word]
        if count >= LEAST_COUNT:
            trust = count / (count + 3)
            seen = [
                (rendering, chance * trust)
                for rendering, chance in aligns.get(word, [])
                if rendering not in EMPTY and english[rendering] >= 3
            ]
            least = max(LEAST_CHANCE, 0.3 * max((chance for _, chance in seen), default=0.0))
            renderings += [r for r, chance in seen if chance >= least and r not in renderings]
        renderings = [r for r in renderings if r != word][: max(OTHERS_MOST, len(ours.get(word, [])))]
        if renderings and len(word) > 1 and not word.isdigit():
            found[word] = renderings
    return found


def write_other(language: str, path: Path) -> None:
    rows = map(json.loads, (BUILD / f"parallel-{language}.jsonl").open())
    _write(other(language, [(row["en"], row[language].replace("ß", "ss")) for row in rows]), path)


def write(corpus: Corpus, path: Path) -> None:
    _write(lexicon(corpus), path)


def _write(found: dict[str, list[str]], path: Path) -> None:
    path.write_text("".join(f"{word}\t{','.join(found[word])}\n" for word in sorted(found)))
