"""Subtitles as text: both formats, rolling captions, and files that are not what they say."""

from hypothesis import given
from hypothesis import strategies as st

from toolyard.servers.youtube.transcript import Cue, cues_of, transcript

ROLLING = """WEBVTT
Kind: captions
Language: en

00:00:00.080 --> 00:00:02.230 align:start position:0%
 
good<00:00:00.320><c> morning</c><00:00:00.560><c> everybody</c>

00:00:02.230 --> 00:00:02.240 align:start position:0%
good morning everybody
 

00:00:02.240 --> 00:00:04.470 align:start position:0%
good morning everybody
today<00:00:02.560><c> we</c><00:00:02.800><c> make</c><00:00:03.120><c> tea</c>

00:00:04.470 --> 00:00:04.480 align:start position:0%
today we make tea
 

00:00:04.480 --> 00:00:06.000 align:start position:0%
today we make tea
green<00:00:05.000><c> tea</c>
"""  # noqa: W293 (as YouTube writes it)
SUBRIP = (
    "\ufeff1\r\n00:00:01,500 --> 00:00:02,000\r\n{\\an8}<b>One</b>\r\ntwo\r\n\r\n"
    "2\r\n01:02:03,000 --> 01:02:04,000\r\nThree\r\n"
)


def test_rolling_captions_are_said_once():
    assert transcript(cues_of(ROLLING)) == (
        "[00:00] good morning everybody\n[00:02] today we make tea\n[00:04] green tea\n"
    )


def test_subrip_is_read_with_its_marks_removed():
    assert cues_of(SUBRIP) == [Cue(1.5, 2.0, "One two"), Cue(3723.0, 3724.0, "Three")]
    assert transcript(cues_of(SUBRIP)).endswith("[1:02:03] Three\n")


def test_people_may_say_the_same_twice():
    lines = ["Who?", "No.", "No.", "Yes.", "Well", "then", "go"]
    text = "WEBVTT\n\n" + "".join(
        f"00:0{at}.000 --> 00:0{at}.900\n{line}\n\n" for at, line in enumerate(lines)
    )
    assert [cue.text for cue in cues_of(text)] == lines


def test_notes_styles_and_headers_are_not_spoken():
    text = (
        "WEBVTT - title\n\nSTYLE\n::cue { color: red }\n\nNOTE\nnot this\n\n00:01.000 --> 00:02.000\nthis\n"
    )
    assert [cue.text for cue in cues_of(text)] == ["this"]


@given(st.text(alphabet=st.sampled_from("0123456789:.,->< \n{}\\abc&;"), max_size=400))
def test_any_text_is_read_without_a_failure(text: str):
    for cue in cues_of(text):
        assert cue.text
