"""Known secrets in texts: found in whatever form, and nothing else is touched."""

import base64
import json
import os
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.upstream.parrot import forms, leaks
from toolyard.upstream.messages.spool import Spool, Spooled
from toolyard.wire.errors import McpError
from toolyard.wire.secrets import KnownSecrets

TOKEN = "ghp_0123456789abcdefABCDEF0123"
ODD = 'p"ss wörd/42\\n+='

printable = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=12, max_size=40)
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def encoded(value: Any, ascii: bool = True) -> bytes:
    return json.dumps(value, ensure_ascii=ascii).encode("utf-8", "surrogatepass")


@settings(max_examples=50)
@given(documents, st.booleans())
def test_a_text_without_them_is_the_same_object(document: Any, ascii: bool):
    data = encoded(document, ascii)
    assert KnownSecrets([TOKEN, ODD, "hunter2"]).clean(data) is data


@settings(max_examples=60)
@given(printable, st.text(max_size=10), st.text(max_size=10), st.booleans())
@example("\u00a00000000000000", "\\", "", True)
@example("\\\u00a0000000000000", "", "", True)
@example('"quoted", "value"', "\\", "\\", True)
@example(ODD, "", "", True)
@example("na123456789012", "\n", "", True)
@example("123456789012", "1", "1", True)
def test_json_stays_json_and_has_none_of_them(secret: str, before: str, after: str, ascii: bool):
    assume("*" not in secret and set(secret) != {"9"})
    known = KnownSecrets([secret])
    data = encoded({"a": [before + secret + after, 1, True], before + secret: {"b": secret}}, ascii)
    cleaned = json.loads(known.clean(data))
    assert secret not in str(list(cleaned)) + cleaned["a"][0] + str(next(iter(cleaned.values())))
    assert cleaned["a"][1:] == [1, True]


@pytest.mark.parametrize("secret", [TOKEN, ODD, "hunter2", "0123456789012345"])
@pytest.mark.parametrize("depth", range(4))
def test_a_secret_is_found_in_every_form_and_at_every_depth(secret: str, depth: int):
    said = forms(f"a {secret} b")
    for _ in range(depth):
        said = json.dumps({"said": said})
    cleaned = KnownSecrets([secret]).clean(said.encode())
    assert not leaks(cleaned, secret)
    for _ in range(depth):
        cleaned = json.loads(cleaned)["said"].encode()


def test_a_secret_is_found_where_each_of_its_characters_is_a_code():
    secret = 'p"a\\ss/word-of-ana'
    data = b'{"a": "%s"}' % "".join(f"\\u{ord(one):04x}" for one in secret).encode()
    assert json.loads(data) == {"a": secret}
    assert secret[4:] not in json.loads(KnownSecrets([secret]).clean(data))["a"]


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_base64_and_hex_can_still_be_decoded(before: bytes, after: bytes):
    known = KnownSecrets([TOKEN])
    whole, hidden = before + TOKEN.encode() + after, before + b"*" * len(TOKEN) + after
    for encode, decode in (
        (base64.b64encode, base64.b64decode),
        (base64.urlsafe_b64encode, base64.urlsafe_b64decode),
    ):
        shown = decode(known.clean(encode(whole)))
        # The characters at its ends belong to its neighbours too.
        assert (len(shown), shown[: len(before)], shown[len(before) + len(TOKEN) :]) == (
            len(whole),
            before,
            after,
        )
        assert shown.count(b"*") >= hidden.count(b"*") - 2
    assert bytes.fromhex(known.clean(whole.hex().encode()).decode()) == hidden


@pytest.mark.parametrize(
    "value", ["1", "true", "application/json"[:5], "12345", "secret", "123456", "password", "content"]
)
def test_what_cannot_be_told_from_other_words_is_not_hidden(value: str):
    data = encoded({"content": [{"type": "text", "text": f"{value} password 12345 123456 secret 1"}]})
    assert KnownSecrets([value]).clean(data) is data


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("hunter2", "***"),
        ("(hunter2)", "(***)"),
        ("a\nhunter2\tb", "a\n***\tb"),
        ("k=hunter2&x", "k=***&x"),
        (quote(" hunter2 "), "%20***%20"),
        ("thehunter2", "thehunter2"),
        ("hunter22", "hunter22"),
        ("iVBORw0hunter2KGgoAAAA", "iVBORw0hunter2KGgoAAAA"),
    ],
)
def test_a_short_one_is_found_where_it_stands_alone(text: str, cleaned: str):
    found = KnownSecrets(["hunter2"]).clean(encoded({"text": text}))
    assert json.loads(found) == {"text": cleaned}


def test_images_are_untouched_by_short_secrets():
    image = base64.b64encode(os.urandom(2**20))
    assert KnownSecrets(["hunter2", "x1y2z3", "pin-77"]).clean(image) is image


def test_a_number_that_is_a_secret_becomes_another_number():
    data = b'{"account": 123456789012, "text": "of 123456789012", "other": 7}'
    found = json.loads(KnownSecrets(["123456789012"]).clean(data))
    assert found == {"account": 999999999999, "text": "of 999999999999", "other": 7}


@settings(max_examples=15)
@given(
    st.lists(st.integers(1, 40), max_size=30),
    st.sampled_from([TOKEN, ODD, "hunter2"]),
    st.sampled_from([20, 10**6]),
)
def test_it_does_not_matter_how_a_text_arrives(cuts: list[int], secret: str, bound: int):
    text = json.dumps({"said": [forms(f"{secret} {number}") for number in range(3)], "n": 1}).encode() * 40
    text = b"[" + b",".join([text[: len(text) // 40]] * 40) + b"]"
    spool, at = Spool(bound, secrets=KnownSecrets([secret])), 0
    for cut in (*(cut * 997 for cut in cuts), len(text)):
        spool.write(text[at : at + cut])
        at += cut
    spool.write(text[at:])
    found = spool.finish()
    whole = found if isinstance(found, bytes) else found.read(0, found.size)
    assert whole.replace(b" ", b"") == KnownSecrets([secret]).clean(text).replace(b" ", b"")
    assert not isinstance(found, Spooled) or found.size == len(whole)
    json.loads(whole)


def test_of_those_that_are_added_the_latest_are_known():
    known = KnownSecrets(["the-first-of-all-1"])
    for number in range(20):
        known.add(f"token-number-{number:03}", f"token-number-{number:03}")
    text = b"the-first-of-all-1 token-number-000 token-number-011 token-number-012 token-number-019"
    assert known.clean(text) == b"*** token-number-000 token-number-011 *** ***"


def test_an_error_has_none_in_words_and_data():
    error = McpError(-32000, f"not with {TOKEN}", {"said": [TOKEN], TOKEN: 1})
    KnownSecrets([TOKEN]).clean_error(error)
    assert (error.message, str(error), error.data) == (
        "not with ***",
        "not with ***",
        {"said": ["***"], "***": 1},
    )


def test_no_pattern_is_made_of_a_secret():
    """`re` keeps the patterns of others, and a caller's key is erased after its call."""
    import re

    KnownSecrets([TOKEN]).clean(encoded({"said": forms(TOKEN)}))
    assert not any(TOKEN in str(key) for key in re._cache)  # type: ignore[attr-defined]
