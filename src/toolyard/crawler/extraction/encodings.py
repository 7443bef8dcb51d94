"""Decodes the bytes of a page: byte order mark, header, declaration in the page, then detection.

The order and the meaning of labels are those of browsers (the WHATWG Encoding Standard): `latin-1` means
windows-1252, `gb2312` means GB 18030. A declared encoding that cannot decode the bytes is not believed.
"""

import codecs
import re

from .language import language_of

_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xfe\xff", "utf-16-be"), (b"\xff\xfe", "utf-16-le"))
_DECLARED = re.compile(rb"""<meta[^>]{0,500}?charset\s*=\s*["']?\s*([\w:.-]{1,40})""", re.IGNORECASE)
_XML = re.compile(rb"""^\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w:.-]{1,40})["']""", re.IGNORECASE)
_LOOKED_AT = 8192
"""Bytes in which a declaration is looked for; browsers look at 1024, and pages put it later."""
_DETECTED = 64 * 1024
_WRONG_SHARE = 0.005
"""A declared encoding may fail for this share of the characters: pages mix in pieces of others."""
_LABELS = {
    "latin-1": "cp1252",
    "latin1": "cp1252",
    "iso-8859-1": "cp1252",
    "iso8859-1": "cp1252",
    "iso_8859-1": "cp1252",
    "us-ascii": "cp1252",
    "ascii": "cp1252",
    "windows-1252": "cp1252",
    "iso-8859-9": "cp1254",
    "iso-8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "x-gbk": "gb18030",
    "gb_2312-80": "gb18030",
    "big5": "big5hkscs",
    "shift_jis": "cp932",
    "shift-jis": "cp932",
    "sjis": "cp932",
    "x-sjis": "cp932",
    "windows-31j": "cp932",
    "euc-kr": "cp949",
    "ks_c_5601-1987": "cp949",
    "x-mac-roman": "mac-roman",
    "macintosh": "mac-roman",
    "unicode": "utf-16-le",
    "utf8": "utf-8",
    "x-user-defined": "cp1252",
}
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff\ud800-\udfff]")


def decoded(body: bytes, charset: str = "") -> tuple[str, str]:
    """The text without control characters, and the name of the encoding. `charset` is the header's."""
    text, encoding = _decoded(body, charset)
    return _CONTROLS.sub("", text.replace("\r\n", "\n").replace("\r", "\n")), encoding


def _decoded(body: bytes, charset: str) -> tuple[str, str]:
    for mark, name in _BOMS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace"), name
    start = body[:_LOOKED_AT]
    labels = [
        charset,
        *(found[1].decode("ascii", "ignore") for one in (_DECLARED, _XML) if (found := one.search(start))),
    ]
    names = [name for label in labels if (name := codec_of(label))]
    # A page found by its declaration is not in UTF-16, whatever it says.
    names = [name for name in names if not name.startswith("utf-16") or name == codec_of(charset)]
    for name in dict.fromkeys([*names, "utf-8"]):
        try:
            return body.decode(name), name
        except UnicodeDecodeError:
            text = body.decode(name, "replace")
            if name in names and text.count("\ufffd") <= len(text) * _WRONG_SHARE:
                return text, name
    return _detected(body)


def codec_of(label: str) -> str:
    """Python's name of an encoding, empty if there is none."""
    name = label.strip().strip("\"'").lower()
    name = _LABELS.get(name, name)
    try:
        codec = codecs.lookup(name) if name else None
    except (LookupError, ValueError):
        return ""
    # Python's own codecs such as `unicode_escape` or `hex` are no encodings of text.
    is_text = codec is not None and getattr(codec, "_is_text_encoding", True)
    return (
        codec.name
        if codec is not None
        and is_text
        and not codec.name.startswith(("idna", "punycode", "unicode", "raw", "utf-7"))
        else ""
    )


def _detected(body: bytes) -> tuple[str, str]:
    name = _asian(body[:_DETECTED])
    if not name:
        from charset_normalizer import from_bytes  # 20 ms

        best = from_bytes(body[:_DETECTED]).best()
        name = best.encoding if best is not None else "cp1252"
        # For few accents all of Europe's encodings look alike; the words tell west from east.
        if language_of(western := body.decode("cp1252", "replace")) in _WESTERN:
            return western, "cp1252"
    return body.decode(name, "replace"), name


_WESTERN = frozenset({"en", "pt", "es", "fr", "de", "it", "nl", "sv"})


def _asian(start: bytes) -> str:
    """One of the old encodings of East Asia, which charset_normalizer mixes up.

    Most bytes mean something in each of them, but only in the right one do they make frequent characters:
    kana in Japanese, Hangul in Korean, and the first level of ideographs, those in daily use, in Chinese.
    """
    found: dict[str, float] = {}
    for name, share in _FREQUENT.items():
        text = start.decode(name, "ignore")
        lost = len(start) - len(text.encode(name, "ignore"))
        beyond = [character for character in text if ord(character) > 0x7F]
        if len(beyond) >= 10 and lost <= len(start) * _WRONG_SHARE:
            found[name] = sum(1 for character in beyond if share(character)) / len(beyond)
    best = max(found, key=lambda one: found[one], default="")
    return _CODECS[best] if best and found[best] >= _FREQUENT_SHARE else ""


def _is_kana(character: str) -> bool:
    return "\u3040" <= character <= "\u30ff" or character in "。、・「」"


def _is_hangul(character: str) -> bool:
    return "\uac00" <= character <= "\ud7a3"


def _is_frequent_simplified(character: str) -> bool:
    return 0xB0 <= character.encode("gb2312", "replace")[0] <= 0xD7 or character in "，。、：；！？"


def _is_frequent_traditional(character: str) -> bool:
    return 0xA4 <= character.encode("big5", "replace")[0] <= 0xC6 or character in "，。、：；！？"


_FREQUENT_SHARE = 0.35
_FREQUENT = {
    "shift_jis": _is_kana,
    "euc_jp": _is_kana,
    "euc_kr": _is_hangul,
    "gb2312": _is_frequent_simplified,
    "big5": _is_frequent_traditional,
}
_CODECS = {
    "shift_jis": "cp932",
    "euc_jp": "euc_jp",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "big5": "big5hkscs",
}
