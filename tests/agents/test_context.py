"""What of a conversation is sent when it grows."""

from toolyard.agents.context import ContextWindow
from toolyard.agents.messages import ChatMessage, TextPart, ToolResultPart, ToolUsePart


def turn(number: int, text: str) -> list[ChatMessage]:
    id = f"use_{number}"
    return [
        ChatMessage("assistant", (ToolUsePart(id, "read", {"number": number}),)),
        ChatMessage("user", (ToolResultPart(id, (TextPart(text),)),)),
    ]


def texts(messages: tuple[ChatMessage, ...]) -> list[str]:
    return [
        part.parts[0].text
        for message in messages
        for part in message.parts
        if isinstance(part, ToolResultPart) and isinstance(part.parts[0], TextPart)
    ]


TASK = ChatMessage("user", (TextPart("the task"),))


def is_whole(messages: tuple[ChatMessage, ...]) -> bool:
    """Whether every tool use is followed by its result."""
    for at, message in enumerate(messages):
        uses = [part.id for part in message.parts if isinstance(part, ToolUsePart)]
        if uses:
            after = [part.id for part in messages[at + 1].parts if isinstance(part, ToolResultPart)]
            if after != uses:
                return False
    return messages[0].role == "user"


def test_old_results_become_lines_with_their_link_and_the_newest_stays() -> None:
    window = ContextWindow(4000)
    conversation = [TASK]
    for number in range(6):
        conversation += turn(number, f"toolyard://results/abc{number} " + "x" * 3000)
    sent = window.fit(conversation, 0)
    shown = texts(sent)
    assert is_whole(sent)
    assert len(shown) == 6
    assert "toolyard://results/abc0" in shown[0]
    assert len(shown[0]) < 400
    assert len(shown[-1]) > 3000


def test_between_two_batches_a_request_begins_with_the_one_before() -> None:
    window = ContextWindow(6000)
    conversation = [TASK]
    before: tuple[ChatMessage, ...] = ()
    changes = 0
    for number in range(60):
        conversation += turn(number, f"{number} " + "x" * 1000)
        sent = window.fit(conversation, 1000)
        assert is_whole(sent)
        changes += sent[: len(before)] != before
        before = sent
    assert 0 < changes <= 10


def test_whole_turns_are_left_out_if_lines_are_not_enough() -> None:
    window = ContextWindow(1000)
    conversation = [TASK]
    for number in range(200):
        conversation += turn(number, "short " * 20)
    sent = window.fit(conversation, 0)
    assert is_whole(sent)
    assert 2 <= len(sent) < 60
    assert isinstance(sent[0].parts[0], TextPart)
    assert sent[0].parts[0].text == "the task"
    assert texts(sent)[-1] == "short " * 20


def test_an_api_that_counts_more_tokens_makes_the_window_smaller() -> None:
    window = ContextWindow(10_000)
    conversation = [TASK]
    for number in range(8):
        conversation += turn(number, "x" * 3000)
    assert all(len(text) == 3000 for text in texts(window.fit(conversation, 0)))
    window.learn(24_000)
    conversation += turn(8, "x" * 3000)
    assert len(texts(window.fit(conversation, 0))[0]) < 400


def test_neighbours_of_one_role_are_sent_as_one_message() -> None:
    more = ChatMessage("user", (TextPart("and more"),))
    sent = ContextWindow(1000).fit([TASK, more], 0)
    assert [message.role for message in sent] == ["user"]
    assert len(sent[0].parts) == 2


def test_ids_that_begin_anew_with_every_reply_are_told_apart() -> None:
    conversation = [TASK]
    for _ in range(6):
        conversation += turn(0, "x" * 3000)
    shown = texts(ContextWindow(4000).fit(conversation, 0))
    assert len(shown[0]) < 400
    assert len(shown[-1]) == 3000
