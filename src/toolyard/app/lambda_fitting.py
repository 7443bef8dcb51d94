"""Results that a function can send: a summary and a preview in the place of one that is over its limit.

The shaping is imported when the first big result needs it: a cold start does without.
"""

from msgspec import Raw

from ..wire.call import Call
from ..wire.messages import decode_params
from ..wire.types import CallToolParams

SHAPED_BYTES = 64_000
PREVIEW_ITEMS = 50
PREVIEW_CHARS = 16_000
TOO_BIG = "it is over what a function can send in one answer; ask for fewer items, or for a part"


async def fit(call: Call, result: Raw) -> Raw:
    """What takes the place of a result that is too big; itself where there is no such thing."""
    from ..results.limits import Limits
    from ..results.measuring import measure
    from ..results.payload import payload_of
    from ..results.shaping import Beside, Forms, as_result, shaped
    from ..results.storing import Kept
    from ..results.survey import survey

    limits = Limits(
        max_bytes=SHAPED_BYTES, preview_items=PREVIEW_ITEMS, preview_chars=PREVIEW_CHARS, always=True
    )
    payload = payload_of(bytes(result))
    measured = measure(payload, limits.by_bytes_alone())
    if not measured:  # pictures or the like, of which no part would be one
        return result
    tool = decode_params(call.params, CallToolParams).name
    answer = shaped(tool, survey(measured[0].whole), Kept("none", fault=TOO_BIG), limits, "")
    beside = Beside(measured[0].beside, payload.meta, payload.is_error)
    return as_result(Forms.of(answer), beside, None, call.caller.era)
