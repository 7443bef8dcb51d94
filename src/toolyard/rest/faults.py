"""What can go wrong between us and an API, as one tree. What the model is told of it is `failures`' matter.

Fault
├── Unreachable   no connection, or it broke before anything of a reply came
├── TooSlow       the deadline passed
├── TooLarge      the reply is bigger than we take
└── Garbled       what came is not HTTP, or ended in the middle
"""


class Fault(Exception):
    """A request that got no whole reply."""


class Unreachable(Fault):
    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent
        """Whether the API may have got the request: then only what may be repeated is sent again."""


class TooSlow(Fault):
    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer within {seconds:g} seconds")
        self.seconds = seconds


class TooLarge(Fault):
    def __init__(self, limit: int) -> None:
        super().__init__(f"the reply is bigger than {limit} bytes")
        self.limit = limit


class Garbled(Fault):
    pass
