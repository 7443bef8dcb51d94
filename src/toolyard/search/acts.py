"""What a request wants done, and what a tool does: a few kinds of acts, as bits, told by verbs.

A word may stand for several kinds: who "cancels" a meeting deletes, stops or changes it. A request is read
clause by clause, after its words were put into English. What it says must not happen is told apart.
"""

import re
from collections.abc import Iterable, Sequence

from .terms import stem
from .wordlists import AND, HOW_TO, NEGATIONS, NOUNS, PLAIN_VERBS, POLITE, QUESTIONS, UNTIL

_KINDS = {
    "search": "search find query lookup locate discover seek scan grep match research explore",
    "list": "list browse enumerate all index which",
    "get": "get read fetch retrieve view show see look describe inspect check verify count summarize "
    "display download return tell give status compare diff analyze explain monitor track watch "
    "review preview measure calculate compute estimate convert translate transcribe extract parse "
    "scrape crawl capture info load open recall catch know play listen history whats export",
    "create": "create add new insert append make register generate open book schedule upload post record "
    "log store save write draft put build set compose plan remind remember memorize note jot "
    "commit declare report file start clone fork duplicate copy import attach submit raise invite "
    "grow place stage reserve order",
    "update": "update edit modify change rename set patch move replace assign mark complete resolve "
    "transition reschedule postpone switch toggle rewrite adjust tweak convert format sort "
    "reorder merge correct fix upgrade downgrade promote push shift delay close reopen check give "
    "turn archive restore apply label tag write save put cancel transfer acknowledge approve "
    "reject snooze mute silence configure enable disable",
    "delete": "delete remove drop erase purge clear wipe discard uninstall cancel unsubscribe revoke "
    "destroy forget trash clean reset unstage rid unlink detach",
    "send": "send post reply message notify publish forward share comment tell ping mail email text dm "
    "answer respond alert announce react warn write submit invite say let broadcast",
    "draft": "draft compose prepare write redact",
    "run": "run execute start launch trigger deploy invoke call perform test build install evaluate "
    "command restart apply play rerun resume turn switch toggle",
    "stop": "stop cancel close kill terminate end pause abort disable halt shut quit turn mute silence",
    "navigate": "open go navigate visit browse click press type hover drag scroll switch checkout",
}
BITS = {kind: 1 << place for place, kind in enumerate(_KINDS)}
READING = BITS["search"] | BITS["list"] | BITS["get"]
MANAGING = BITS["create"] | BITS["update"] | BITS["delete"]
CHANGING = MANAGING | BITS["send"]

_ACTS: dict[str, int] = {}
for _kind, _said in _KINDS.items():
    for _word in _said.split():
        _ACTS[_word] = _ACTS.get(_word, 0) | BITS[_kind]
_ACTS["manage"] = MANAGING
_ACTS["upsert"] = BITS["create"] | BITS["update"]
ACT_WORDS = frozenset(_ACTS)
_STEMS = {stem(word): bits for word, bits in _ACTS.items()}

_REACH = 3
_PARTICIPLE = re.compile(r"(?:ed|ado|ada|ido|ida|ados|adas|idos|idas)$")


class WantedActs:
    """The bits of what a request wants, of what it must not do, and the words that say the latter."""

    def __init__(self) -> None:
        self.wanted = 0
        self.avoided = 0
        self.unsaid: set[str] = set()


def acts_of_request(clauses: Iterable[Sequence[Sequence[str]]]) -> WantedActs:
    """`clauses` have for each word the ways to say it in English, itself alone if it is English."""
    found = WantedActs()
    for said in clauses:
        refused = _refused(said)
        for place in refused:
            found.avoided |= _acts(said[place])
            found.unsaid.update(said[place])
        found.wanted |= _first_acts([word for place, word in enumerate(said) if place not in refused])
    found.wanted &= ~found.avoided or ~0
    return found


def _first_acts(said: Sequence[Sequence[str]]) -> int:
    """Return what the first verb says, and the first after each "and"."""
    if said and (said[0][0] in QUESTIONS or _asks_how_much(said)):
        return _asked_act(said)
    bits = 0
    begun: bool | None = False  # None when the verb of a part was found
    for renderings in said:
        word = renderings[0]
        if renderings[-1] in AND:
            begun = False
        elif begun is not None and (begun or word not in POLITE):
            acts = _acts(renderings[:3])
            if acts and not _PARTICIPLE.search(word) and not (_is_noun(word, begun)):
                bits |= acts
                begun = None
            else:
                begun = True
    return bits


def _is_noun(word: str, begun: bool) -> bool:
    """Tell whether a word that may be a verb is none: behind other words, or in the plural."""
    return word in NOUNS if begun else word not in _ACTS and word.removesuffix("s") in NOUNS


def _asks_how_much(said: Sequence[Sequence[str]]) -> bool:
    """Tell "how big is" from "how to" and "how can I"."""
    return said[0][0] == "how" and len(said) > 1 and said[1][0] not in HOW_TO


def _asked_act(said: Sequence[Sequence[str]]) -> int:
    """Return what a question wants: to know, unless it asks how to change something."""
    later = (renderings for renderings in said if renderings[0] in PLAIN_VERBS and renderings[0] not in NOUNS)
    changes = [_acts(renderings[:1]) for renderings in later]
    if any(renderings[0] == "did" for renderings in said):
        return READING
    return next((acts for acts in changes if not acts & READING), READING)


def _refused(said: Sequence[Sequence[str]]) -> set[int]:
    """Return the places of the verbs that a request says not to do."""
    places: set[int] = set()
    for at, renderings in enumerate(said):
        if renderings[-1] not in NEGATIONS:
            continue
        for place in range(at + 1, min(at + 1 + _REACH, len(said))):
            word = said[place]
            if not UNTIL.isdisjoint(word):
                break
            if _acts(word[:3]) & (CHANGING | BITS["run"]) and not _PARTICIPLE.search(word[-1]):
                places.add(place)
                break
    return places


def _acts(renderings: Sequence[str]) -> int:
    bits = 0
    for word in renderings:
        bits |= _ACTS.get(word, 0) or _STEMS.get(stem(word), 0)
    return bits


def acts_of_tool(own: Sequence[str], description: Sequence[str], reads: bool | None) -> int:
    """Return the acts of a tool: by the verb of its name without its server's, else by how its description
    begins. A plain verb at either end of the name is surer than any other word, and a word that is a noun
    too (`log`) is less sure than the description."""
    ends = (*own[:1], *own[-1:])
    sure = next((word for word in (*ends, *own) if word in PLAIN_VERBS), "")
    named = next((word for word in ends if word in _ACTS), "")
    told = next((word for word in map(_singular, description[:1]) if word in _ACTS), "")
    doubtful = told or named if named in NOUNS else named or told
    bits = _ACTS.get(sure or doubtful, 0)
    if reads and bits & READING:
        bits &= ~(CHANGING | BITS["draft"])
    return bits


def _singular(word: str) -> str:
    return word if word in _ACTS or not word.endswith("s") else word.removesuffix("s")
