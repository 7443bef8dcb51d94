"""Values in a request (a path, a link, a ticket's key, a time), which are no words to look for.

Each is replaced by the word for what it is, which tools do say: `budget.xlsx` by "file spreadsheet". What
stands in quotes is a value too; its words stay, with little weight.
"""

import re
from collections.abc import Callable

_LIBRARIES = "next|node|vue|nuxt|react|three|express|ember|angular|backbone|d3"
"""Names of libraries that look like files of JavaScript."""
_STANDARDS = "UTF|ISO|SHA|GPT|RFC|MD|AES|RSA|COVID|HTTP|TLS|SSL|MP|IPV|CVE"
"""What looks like the key of a ticket, with a number behind it, and is none."""

_FILES = {
    "file spreadsheet": "xlsx xls ods csv tsv",
    "file document": "docx doc odt rtf",
    "file presentation": "pptx ppt odp",
    "file pdf": "pdf",
    "file image": "jpg jpeg png gif webp svg bmp heic tiff",
    "file audio": "mp3 wav ogg flac m4a",
    "file video": "mp4 mov avi mkv webm",
    "file": "txt md log json yaml yml toml ini cfg conf xml html htm css sql db env lock bak zip tar gz tgz "
    "rar py js ts jsx tsx java go rs rb php c h cpp cs sh bat ps1 ipynb kt swift lua",
}
_KIND_OF_FILE = {ending: kind for kind, endings in _FILES.items() for ending in endings.split()}
_ENDINGS = "|".join(sorted(_KIND_OF_FILE, key=len, reverse=True))
_DOMAINS = "com|org|net|io|dev|app|ai|co|gov|edu|info|eu|uk|de|fr|es|pt|br|ar|mx|ch|at|it|nl"


def _file(found: re.Match[str]) -> str:
    ending = found[0].rpartition(".")[2].lower()
    return f" {_KIND_OF_FILE[ending]} {ending} "


_Replacement = str | Callable[[re.Match[str]], str]

_WEB_PAGE = re.compile(r"\bweb[\s-]?(?:page|site)s?\b", re.I)

_KINDS: tuple[tuple[re.Pattern[str], _Replacement], ...] = tuple(
    (re.compile(pattern, flags), replacement)
    for pattern, flags, replacement in (
        (r"\b(?:https?|ftp)://\S+|\bwww\.\S+", re.I, " url web "),
        (r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64})+", 0, " email "),
        (r"-?\d{1,3}\.\d{3,},\s{0,3}-?\d{1,3}\.\d{3,}", 0, " coordinates latitude longitude "),
        (r"\blocalhost(?::\d+)?\b|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b", re.I, " host port "),
        (
            rf"(?<![\w/])(?!(?:{_LIBRARIES})\.js\b)[\w~./\\-]{{0,200}}[\w-]\.(?:{_ENDINGS})\b(?![./]\w)",
            re.I,
            _file,
        ),
        (
            r"(?<![\w/.])(?:~|\.{1,2})?/[\w.-]{1,64}(?:/[\w.-]{0,64})+|\b[A-Z]:\\\S+",
            0,
            " file directory path ",
        ),
        (
            r"(?<![\w.])\.(?:env|git\w+|bash\w*|zsh\w*|profile|vimrc|npmrc|ssh|config|dockerignore)\b",
            re.I,
            " file ",
        ),
        (rf"\b[a-z0-9-]{{2,63}}\.(?:{_DOMAINS})\b(?!\.\w)", re.I, " url web "),
        (rf"\b(?!(?:{_STANDARDS})-)[A-Z][A-Z0-9]{{1,9}}-\d{{1,7}}\b", 0, " issue key "),
        (r"(?<!\w)#\d{1,7}\b", 0, " number "),
        (r"(?<!\w)#[a-z][\w-]{1,79}", re.I, " channel "),
        (r"(?<!\w)\+?\d{1,3}[\s(-]{1,2}\d{2,4}[\s)-]{1,2}\d{3,5}[\s-]?\d{2,5}\b", 0, " phone number "),
        (r"\b\d{1,2}(?::\d{2})\s?(?:am|pm|h|uhr)?\b|\b\d{1,2}\s?(?:am|pm|h|uhr)\b", re.I, " "),
        (r"\b\d{4}-\d{2}-\d{2}\b|\b\d{1,2}/\d{1,2}(?:/\d{2,4})?\b", 0, " "),
    )
)
_MAYBE = re.compile(r"\d|[.#/\\]\w|\w@")
_HOST = re.compile(
    rf"(?:https?://|www\.|(?<![\w@.]))(?:[\w-]{{1,63}}\.){{0,3}}?([\w-]{{2,63}})\.(?:{_DOMAINS}|so|me|tv)\b",
    re.I,
)
_QUOTED = re.compile(r"[\"“”«„]([^\"“”«»„]{1,200})[\"“”»]")


def named(text: str) -> str:
    """Return a request with the kinds of its values in their places."""
    text = _WEB_PAGE.sub("url web", text)
    if _MAYBE.search(text) is None:
        return text
    for pattern, replacement in _KINDS:
        text = pattern.sub(replacement, text)
    return text


def values(text: str) -> tuple[str, ...]:
    """Return the words inside values that may still tell something: quoted ones, and the names of hosts."""
    hosts = _HOST.findall(text) if _MAYBE.search(text) is not None else []
    return (*_QUOTED.findall(text), *(host for host in hosts if host.lower() != "www"))


def has_identifier(text: str) -> bool:
    """Tell whether a request has a value by which one thing may be known."""
    return _IDENTIFIER.search(text) is not None


_IDENTIFIER = re.compile(r"[#/]?\w*\d{2,}\w*|#\d|https?://|\b[A-Z][A-Z0-9]+-\d+")
