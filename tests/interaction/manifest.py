"""What these conversations prove: each behaviour, its place in the specification, and the tests that show it.

`test_manifest.py` holds it against the tests, both ways, and against `sections.txt`, the headings of the
specification. A section is `<revision>/<page>#<anchor>`; `tasks#…` is the tasks extension.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])

OLD, NEW = "2025-11-25", "2026-07-28"


@dataclass(frozen=True)
class Behaviour:
    says: str
    sections: tuple[str, ...]
    tests: tuple[str, ...]


def both(page: str) -> tuple[str, ...]:
    """A section that has the same place in both revisions."""
    return f"{OLD}/{page}", f"{NEW}/{page}"


def shows(*names: str) -> Callable[[F], F]:
    """Mark a test with the behaviours that it shows."""
    for name in names:
        if name not in BEHAVIOURS:
            raise KeyError(f"{name!r} is not in the manifest")

    def mark(test: F) -> F:
        test.shows = names  # type: ignore[attr-defined]
        return test

    return mark


BEHAVIOURS: dict[str, Behaviour] = {
    # Opening
    "opening.initialize": Behaviour(
        "a legacy client and the server introduce themselves and settle on a revision",
        (f"{OLD}/basic/lifecycle#initialization", f"{OLD}/basic/lifecycle#capability-negotiation"),
        ("test_opening.py::test_a_legacy_client_learns_who_it_speaks_to_by_initialize",),
    ),
    "opening.discover": Behaviour(
        "a modern client asks for versions, capabilities and instructions when it likes",
        (f"{NEW}/server/discover#response", f"{NEW}/basic/versioning#extension-negotiation"),
        ("test_opening.py::test_a_modern_client_learns_who_it_speaks_to_by_discover",),
    ),
    "opening.ping": Behaviour(
        "a ping is answered with an empty result",
        (f"{OLD}/basic/utilities/ping#behavior-requirements",),
        ("test_opening.py::test_a_legacy_client_pings",),
    ),
    "opening.result_type": Behaviour(
        "every modern result has its resultType and names the server",
        (f"{NEW}/basic/index#result-responses",),
        ("test_opening.py::test_modern_results_say_their_type_and_who_gave_them",),
    ),
    "opening.unknown_method": Behaviour(
        "an unknown method is -32601, and the conversation goes on",
        (f"{OLD}/basic/index#error-responses", f"{NEW}/basic/index#error-codes"),
        ("test_opening.py::test_an_unknown_method_is_not_found",),
    ),
    "opening.other_era": Behaviour(
        "a client is served by the rules of the era it opened with",
        (f"{NEW}/basic/versioning#compatibility-matrix",),
        ("test_opening.py::test_the_methods_of_the_other_era_are_not_found",),
    ),
    "opening.at_once": Behaviour(
        "requests of one client run side by side, each answered under its id",
        both("basic/index#requests"),
        ("test_opening.py::test_many_requests_run_side_by_side",),
    ),
    "opening.both_eras": Behaviour(
        "one endpoint serves legacy and modern clients at the same time",
        (
            f"{NEW}/basic/versioning#backward-compatibility-with-initialization-based-versions",
            f"{NEW}/basic/transports/streamable-http#backward-compatibility",
        ),
        ("test_opening.py::test_one_endpoint_serves_both_eras_at_once",),
    ),
    # Tools
    "tools.list": Behaviour(
        "tools are listed in a steady order with their schemas and annotations",
        (*both("server/tools#listing-tools"), *both("server/tools#tool")),
        ("test_tools.py::test_tools_are_listed_with_schemas_and_hints",),
    ),
    "tools.call": Behaviour(
        "a tool is called by name with its arguments and answers with text",
        (*both("server/tools#calling-tools"), *both("server/tools#text-content")),
        ("test_tools.py::test_a_tool_is_called_with_its_arguments",),
    ),
    "tools.call.structured": Behaviour(
        "structured content fits the output schema and has its JSON as text beside it",
        (*both("server/tools#structured-content"), *both("server/tools#output-schema")),
        (
            "test_tools.py::test_a_structured_result_fits_its_schema_and_has_a_text_twin",
            "test_tools.py::test_a_value_that_is_no_object_is_wrapped",
        ),
    ),
    "tools.call.content": Behaviour(
        "text, images, audio, links and embedded resources come back in their wire forms",
        (
            *both("server/tools#image-content"),
            *both("server/tools#audio-content"),
            *both("server/tools#resource-links"),
            *both("server/tools#embedded-resources"),
        ),
        ("test_tools.py::test_every_kind_of_content_comes_back",),
    ),
    "tools.call.large": Behaviour(
        "megabytes of arguments and results travel whole",
        both("server/tools#calling-tools"),
        ("test_tools.py::test_a_large_argument_and_a_large_result_travel_whole",),
    ),
    "tools.errors.input": Behaviour(
        "wrong arguments are an error result that names the field",
        both("server/tools#error-handling"),
        ("test_tools.py::test_wrong_arguments_come_back_for_the_model_to_mend",),
    ),
    "tools.errors.execution": Behaviour(
        "a failing tool is an error result, and nothing of the inside is told",
        (*both("server/tools#error-handling"), *both("server/tools#security-considerations")),
        ("test_tools.py::test_a_foreseen_failure_is_told_and_an_unforeseen_one_masked",),
    ),
    "tools.errors.output": Behaviour(
        "structured content that breaks the output schema is never sent",
        both("server/tools#output-schema"),
        ("test_tools.py::test_a_result_that_breaks_its_own_schema_is_an_error_without_structure",),
    ),
    "tools.errors.protocol": Behaviour(
        "an unknown tool, and what an author says is one, is a JSON-RPC error",
        both("server/tools#error-handling"),
        (
            "test_tools.py::test_an_unknown_tool_is_an_error_of_the_protocol",
            "test_tools.py::test_an_author_may_answer_with_an_error_of_the_protocol",
        ),
    ),
    # Progress and log lines
    "progress.reported": Behaviour(
        "progress carries the token, increases, and comes before the answer",
        (f"{OLD}/basic/utilities/progress#progress-flow", f"{NEW}/basic/patterns/progress#progress-flow"),
        ("test_telling.py::test_progress_comes_in_order_before_the_answer",),
    ),
    "progress.unasked": Behaviour(
        "without a token there is no progress",
        (
            f"{OLD}/basic/utilities/progress#behavior-requirements",
            f"{NEW}/basic/patterns/progress#behavior-requirements",
        ),
        ("test_telling.py::test_without_a_token_no_progress_is_sent",),
    ),
    "progress.own_token": Behaviour(
        "progress names the token of its own request",
        (
            f"{OLD}/basic/utilities/progress#behavior-requirements",
            f"{NEW}/basic/patterns/progress#behavior-requirements",
        ),
        ("test_telling.py::test_each_call_is_told_of_its_own_progress",),
    ),
    "logging.levels": Behaviour(
        "lines at and above the level asked for are sent, others not",
        (
            f"{OLD}/server/utilities/logging#setting-log-level",
            f"{NEW}/server/utilities/logging#per-request-log-level",
            *both("server/utilities/logging#log-message-notifications"),
        ),
        ("test_telling.py::test_lines_at_and_above_the_level_asked_for_are_sent",),
    ),
    "logging.unasked": Behaviour(
        "a modern request without a level is sent no lines",
        (f"{NEW}/server/utilities/logging#per-request-log-level",),
        ("test_telling.py::test_a_modern_client_that_names_no_level_hears_no_lines",),
    ),
    "logging.unknown_level": Behaviour(
        "an unknown level is -32602",
        both("server/utilities/logging#error-handling"),
        (
            "test_telling.py::test_an_unknown_level_is_refused",
            "test_telling.py::test_an_unknown_level_in_a_modern_request_is_refused",
        ),
    ),
    # Questions to the client
    "elicitation.form.accept": Behaviour(
        "a form is asked for with its schema, and what the user filled in reaches the tool",
        (
            *both("client/elicitation#form-mode-elicitation-requests"),
            *both("client/elicitation#form-mode-flow"),
        ),
        ("test_asking.py::test_a_form_is_filled_and_its_content_reaches_the_tool",),
    ),
    "elicitation.form.decline": Behaviour(
        "the user may decline or cancel, and the tool goes on",
        both("client/elicitation#response-actions"),
        ("test_asking.py::test_a_form_may_be_declined_or_cancelled",),
    ),
    "elicitation.form.schema": Behaviour(
        "a form is a flat object of primitive properties with defaults",
        both("client/elicitation#requested-schema"),
        ("test_asking.py::test_a_form_made_of_a_type_is_flat_and_its_defaults_count",),
    ),
    "elicitation.form.invalid": Behaviour(
        "an answer is held against the form before the tool sees it",
        both("client/elicitation#form-mode-security"),
        ("test_asking.py::test_an_answer_that_does_not_fit_the_form_never_reaches_the_tool",),
    ),
    "elicitation.url": Behaviour(
        "a user is sent to a page when the client opens pages",
        both("client/elicitation#url-mode-elicitation-requests"),
        ("test_asking.py::test_a_page_is_offered_to_a_client_that_opens_pages",),
    ),
    "sampling.text": Behaviour(
        "the client's model is asked with messages and limits",
        both("client/sampling#creating-messages"),
        ("test_asking.py::test_the_clients_model_writes",),
    ),
    "sampling.rejected": Behaviour(
        "a refusal of the client is an error that the conversation survives",
        (f"{OLD}/client/sampling#error-handling",),
        ("test_asking.py::test_a_client_that_refuses_to_sample_ends_the_call_with_its_error",),
    ),
    "roots.list": Behaviour(
        "the client's roots are listed",
        both("client/roots#listing-roots"),
        ("test_asking.py::test_the_clients_folders_are_listed",),
    ),
    "asking.several_at_once": Behaviour(
        "several questions of different kinds are asked in one go",
        (
            f"{NEW}/basic/patterns/mrtr#inputrequests",
            f"{OLD}/basic/transports#sending-messages-to-the-server",
        ),
        ("test_asking.py::test_several_questions_are_asked_at_once",),
    ),
    "asking.one_after_another": Behaviour(
        "a later question builds on earlier answers, which need no memory of the server's",
        (f"{NEW}/basic/patterns/mrtr#basic-workflow", f"{NEW}/basic/index#statelessness"),
        ("test_asking.py::test_questions_one_after_another_keep_what_was_said_before",),
    ),
    "asking.prompts_and_resources": Behaviour(
        "prompts/get and resources/read may ask as tools/call does",
        (f"{NEW}/basic/patterns/mrtr#supported-requests", f"{NEW}/server/resources#reading-resources"),
        ("test_asking.py::test_prompts_and_resources_ask_too",),
    ),
    "asking.undeclared": Behaviour(
        "a client is only asked what it declared",
        (
            *both("client/elicitation#capabilities"),
            *both("client/sampling#capabilities"),
            *both("client/roots#capabilities"),
            f"{NEW}/basic/patterns/mrtr#server-requirements-basic-workflow",
        ),
        (
            "test_asking.py::test_a_client_is_not_asked_for_what_it_did_not_declare",
            "test_asking.py::test_a_client_that_only_fills_forms_is_not_sent_to_a_page",
        ),
    ),
    "rounds.input_required": Behaviour(
        "a question ends the request as input_required; a retry with answers and state completes it",
        (
            f"{NEW}/basic/patterns/mrtr#inputrequiredresult",
            f"{NEW}/server/tools#input-required-tool-results",
        ),
        ("test_rounds.py::test_a_question_ends_the_request_with_what_to_send_back",),
    ),
    "rounds.missing_answers": Behaviour(
        "what is still missing is asked for again, what is unknown is ignored",
        (f"{NEW}/basic/patterns/mrtr#error-handling",),
        ("test_rounds.py::test_what_is_still_missing_is_asked_for_again",),
    ),
    "rounds.sealed_state": Behaviour(
        "a state that was altered, or made for another request, is refused",
        (
            f"{NEW}/basic/patterns/mrtr#server-requirements-basic-workflow",
            f"{NEW}/basic/patterns/mrtr#security-considerations",
        ),
        ("test_rounds.py::test_a_state_that_is_not_ours_for_this_request_is_refused",),
    ),
    "rounds.malformed_answers": Behaviour(
        "a malformed answer is a JSON-RPC error",
        (f"{NEW}/basic/patterns/mrtr#error-handling",),
        ("test_rounds.py::test_a_malformed_answer_is_refused_and_can_be_mended",),
    ),
    # Resources, prompts, completions, pages
    "resources.list": Behaviour(
        "resources and templates are listed apart",
        (*both("server/resources#listing-resources"), *both("server/resources#resource-templates")),
        ("test_lists.py::test_resources_and_templates_are_listed",),
    ),
    "resources.read": Behaviour(
        "text and binary contents are read",
        (*both("server/resources#reading-resources"), *both("server/resources#binary-content")),
        ("test_lists.py::test_text_and_bytes_are_read",),
    ),
    "resources.templates": Behaviour(
        "an address that a template describes is read",
        both("server/resources#resource-templates"),
        ("test_lists.py::test_an_address_of_a_template_is_read",),
    ),
    "resources.not_found": Behaviour(
        "an unknown address is -32002 in the legacy era and -32602 in the modern one",
        both("server/resources#error-handling"),
        ("test_lists.py::test_an_unknown_address_is_refused_with_the_code_of_the_era",),
    ),
    "prompts.list": Behaviour(
        "prompts are listed with their arguments",
        (*both("server/prompts#listing-prompts"), *both("server/prompts#prompt")),
        ("test_lists.py::test_prompts_are_listed_with_their_arguments",),
    ),
    "prompts.get": Behaviour(
        "a prompt's messages are filled with its arguments",
        (*both("server/prompts#getting-a-prompt"), *both("server/prompts#promptmessage")),
        ("test_lists.py::test_a_prompt_is_filled",),
    ),
    "prompts.errors": Behaviour(
        "an unknown prompt or a missing argument is -32602",
        both("server/prompts#error-handling"),
        ("test_lists.py::test_an_unknown_prompt_or_a_missing_argument_is_refused",),
    ),
    "completion.offered": Behaviour(
        "arguments are completed with regard to those already filled, a hundred values at most",
        (
            *both("server/utilities/completion#requesting-completions"),
            *both("server/utilities/completion#completion-results"),
        ),
        ("test_lists.py::test_arguments_of_prompts_and_templates_are_completed",),
    ),
    "completion.errors": Behaviour(
        "an unknown reference is -32602",
        both("server/utilities/completion#error-handling"),
        ("test_lists.py::test_an_unknown_reference_is_refused",),
    ),
    "pages.followed": Behaviour(
        "cursors lead through each of the four lists",
        (
            *both("server/utilities/pagination#pagination-flow"),
            *both("server/utilities/pagination#operations-supporting-pagination"),
        ),
        ("test_lists.py::test_a_list_is_followed_page_by_page",),
    ),
    "pages.stable": Behaviour(
        "a cursor stays good while the list changes",
        both("server/utilities/pagination#implementation-guidelines"),
        ("test_lists.py::test_a_cursor_stays_good_while_the_list_changes",),
    ),
    "pages.bad_cursor": Behaviour(
        "a cursor that is not the server's is -32602",
        both("server/utilities/pagination#error-handling"),
        ("test_lists.py::test_a_cursor_that_is_not_ours_is_refused",),
    ),
    "caching.hints": Behaviour(
        "what may be cached says for how long and for whom",
        (
            f"{NEW}/server/utilities/caching#cacheable-results",
            f"{NEW}/server/utilities/caching#cache-scope-field",
        ),
        ("test_lists.py::test_what_may_be_cached_says_for_how_long_and_for_whom",),
    ),
    # Changes
    "changes.lists": Behaviour(
        "a change of a list is told",
        (
            *both("server/tools#list-changed-notification"),
            *both("server/prompts#list-changed-notification"),
            *both("server/resources#list-changed-notification"),
            f"{OLD}/basic/transports#listening-for-messages-from-the-server",
        ),
        (
            "test_changes.py::test_a_changed_list_is_told",
            "test_changes.py::test_a_tool_added_at_run_time_is_there_once_it_was_told",
        ),
    ),
    "changes.resources": Behaviour(
        "the update of a resource is told to those who watch it",
        both("server/resources#subscriptions"),
        ("test_changes.py::test_the_update_of_a_watched_resource_is_told_and_of_others_not",),
    ),
    "changes.unsubscribe": Behaviour(
        "a legacy client subscribes to what is there, and stops when it likes",
        (f"{OLD}/server/resources#subscriptions", f"{OLD}/server/resources#error-handling"),
        (
            "test_changes.py::test_an_unsubscribed_legacy_client_hears_no_more_of_it",
            "test_changes.py::test_a_resource_that_is_not_there_cannot_be_watched",
        ),
    ),
    "subscriptions.acknowledged": Behaviour(
        "the acknowledgement comes first and says what was agreed",
        (
            f"{NEW}/basic/patterns/subscriptions#acknowledgment",
            f"{NEW}/basic/patterns/subscriptions#receiving-notifications",
        ),
        ("test_changes.py::test_a_subscription_is_acknowledged_first_with_what_was_agreed",),
    ),
    "subscriptions.filter": Behaviour(
        "nothing is told that was not asked for",
        (
            f"{NEW}/basic/patterns/subscriptions#opening-a-stream",
            f"{NEW}/basic/patterns/subscriptions#notification-filter",
        ),
        ("test_changes.py::test_only_what_was_asked_for_is_told",),
    ),
    "subscriptions.several": Behaviour(
        "several subscriptions of one client are told apart by their ids",
        (f"{NEW}/basic/patterns/subscriptions#multiple-concurrent-subscriptions",),
        ("test_changes.py::test_two_subscriptions_are_told_apart_by_their_ids",),
    ),
    "subscriptions.cancelled": Behaviour(
        "a client ends a subscription, and nothing of it stays",
        (f"{NEW}/basic/patterns/subscriptions#cancellation",),
        ("test_changes.py::test_a_cancelled_subscription_leaves_nothing_behind",),
    ),
    "subscriptions.graceful_end": Behaviour(
        "a server that closes answers the subscriptions it ends",
        (f"{NEW}/basic/patterns/subscriptions#graceful-closure",),
        ("test_changes.py::test_a_server_that_closes_ends_a_subscription_with_an_answer",),
    ),
    # Cancellation
    "cancellation.stops": Behaviour(
        "a cancelled call stops, by hanging up over modern HTTP and by notification elsewhere",
        (
            f"{OLD}/basic/utilities/cancellation#behavior-requirements",
            f"{NEW}/basic/patterns/cancellation#transport-specific-cancellation",
        ),
        (
            "test_cancellation.py::test_cancelling_a_call_stops_its_tool",
            "test_cancellation.py::test_cancelling_a_call_that_waits_for_an_answer_ends_it",
        ),
    ),
    "cancellation.of_a_question": Behaviour(
        "a question that is no longer asked is withdrawn from the client",
        (f"{OLD}/basic/utilities/cancellation#cancellation-flow",),
        ("test_cancellation.py::test_a_question_the_tool_gave_up_on_is_withdrawn",),
    ),
    "cancellation.others_go_on": Behaviour(
        "other calls of the client go on",
        (
            f"{OLD}/basic/utilities/cancellation#cancellation-flow",
            f"{NEW}/basic/patterns/cancellation#cancellation-flow",
        ),
        ("test_cancellation.py::test_cancelling_one_call_leaves_the_others",),
    ),
    "cancellation.ignored": Behaviour(
        "cancelling what is unknown or over is ignored",
        (
            f"{OLD}/basic/utilities/cancellation#error-handling",
            f"{NEW}/basic/patterns/cancellation#error-handling",
        ),
        ("test_cancellation.py::test_cancelling_what_is_unknown_or_over_changes_nothing",),
    ),
    # Tasks
    "tasks.created": Behaviour(
        "a call may be answered with a task that is there at once",
        ("tasks#task-creation", "tasks#polymorphic-results"),
        ("test_tasks.py::test_a_long_call_is_answered_with_a_task_that_can_be_followed",),
    ),
    "tasks.get": Behaviour(
        "a task shows its status, and its result once it is completed",
        ("tasks#task-polling", "tasks#task-status"),
        ("test_tasks.py::test_a_long_call_is_answered_with_a_task_that_can_be_followed",),
    ),
    "tasks.undeclared": Behaviour(
        "a client that did not declare the extension is given no task, and told when it asks for one",
        ("tasks#capability-negotiation", "tasks#protocol-errors"),
        (
            "test_tasks.py::test_a_client_that_does_not_follow_tasks_waits_for_the_answer",
            "test_tasks.py::test_the_methods_of_tasks_need_the_extension",
        ),
    ),
    "tasks.unknown": Behaviour(
        "an unknown task is -32602",
        ("tasks#protocol-errors",),
        ("test_tasks.py::test_an_unknown_task_is_not_found",),
    ),
    "tasks.notifications": Behaviour(
        "a listener is told the whole task at every change",
        ("tasks#task-status-notifications",),
        ("test_tasks.py::test_a_listener_hears_the_whole_task_at_every_change",),
    ),
    "tasks.input": Behaviour(
        "a task asks while it runs; answers may come in parts, unknown ones are ignored",
        ("tasks#task-update-requests",),
        ("test_tasks.py::test_a_task_asks_while_it_runs_and_takes_answers_in_parts",),
    ),
    "tasks.after_rounds": Behaviour(
        "what is asked before there is a task is settled in round trips",
        ("tasks#task-creation", f"{NEW}/basic/patterns/mrtr#basic-workflow"),
        ("test_tasks.py::test_what_is_asked_before_the_task_is_asked_in_rounds",),
    ),
    "tasks.cancelled": Behaviour(
        "a cancelled task stops",
        ("tasks#task-cancellation",),
        ("test_tasks.py::test_a_cancelled_task_stops",),
    ),
    "tasks.failed": Behaviour(
        "a JSON-RPC error fails the task and is told",
        ("tasks#task-execution-errors",),
        ("test_tasks.py::test_an_error_of_the_protocol_fails_the_task",),
    ),
    "tasks.server_closes": Behaviour(
        "a server that closes leaves no task running",
        ("tasks#task-status",),
        ("test_tasks.py::test_a_server_that_closes_cancels_what_runs",),
    ),
    # A process of its own
    "process.conversation": Behaviour(
        "a client starts the server and speaks to it line by line",
        (f"{OLD}/basic/transports#stdio", f"{NEW}/basic/transports/stdio#sending-messages"),
        ("test_process.py::test_a_process_converses_prints_elsewhere_and_ends_with_its_input",),
    ),
    "process.stdout": Behaviour(
        "nothing but the protocol is on standard output",
        (f"{OLD}/basic/transports#stdio", f"{NEW}/basic/transports/stdio#receiving-messages"),
        ("test_process.py::test_a_process_converses_prints_elsewhere_and_ends_with_its_input",),
    ),
    "process.end": Behaviour(
        "the process ends by itself when its input does",
        (f"{OLD}/basic/lifecycle#stdio", f"{NEW}/basic/transports/stdio#shutdown"),
        ("test_process.py::test_a_process_converses_prints_elsewhere_and_ends_with_its_input",),
    ),
}
