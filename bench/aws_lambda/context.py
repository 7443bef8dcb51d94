"""The second argument of a Lambda handler, as far as handlers read it; imported by scripts beside it."""

import time

LIMIT_S = 30.0


class Context:
    function_name = "bench"
    function_version = "$LATEST"
    invoked_function_arn = "arn:aws:lambda:us-east-1:012345678912:function:bench"
    memory_limit_in_mb = "512"
    aws_request_id = "8476a536-e9f4-11e8-9739-2dfe598c3fcd"

    def __init__(self) -> None:
        self._end = time.monotonic() + LIMIT_S

    def get_remaining_time_in_millis(self) -> int:
        return int((self._end - time.monotonic()) * 1000)
