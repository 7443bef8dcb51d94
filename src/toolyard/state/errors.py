"""What can go wrong with a store. No message has a password in it.

StateError          names the store by kind and place; `hint` says what to do
├── Unusable        the address, or what lies there, cannot be used: waiting does not help
│   └── MissingExtra  a package of an extra is not installed
├── Unavailable     it cannot be reached just now: the next call tries again by itself
│   └── Late        it gave no answer within the time limit; whether it did the work is not known
├── Full            it takes nothing more until something is deleted or expires
└── BadEntry        the key or the value is none that every store takes
"""


class StateError(Exception):
    told = "the gateway's state cannot be used just now"
    """What a client may know: the message names places, which are for who runs the gateway."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}; hint: {hint}")
        self.message = message
        self.hint = hint


class Unusable(StateError):
    pass


class MissingExtra(Unusable):
    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs a package that is not installed", f"pip install 'toolyard[{extra}]'")
        self.extra = extra


class Unavailable(StateError):
    pass


class Late(Unavailable):
    pass


class Full(StateError):
    told = "the gateway's state has no room left"


class BadEntry(StateError):
    pass
