"""StoreError: the sessions cannot be read or written; the reason is for people and holds no password."""


class StoreError(Exception):
    """`reason` says what is wrong, `hint` what to do."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(f"{reason}; hint: {hint}")
        self.reason = reason
        self.hint = hint
