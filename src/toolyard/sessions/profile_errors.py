"""Why a credential profile cannot be read or written. No message contains a credential or a key.

ProfileError
├── UnknownProfileError
├── InvalidProfileError
├── TooManyProfilesError
└── ProfileLockedError          its configuration cannot be opened
    ├── MissingProfileKeyError
    └── WrongProfileKeyError
"""


class ProfileError(Exception):
    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}; hint: {hint}")
        self.message = message
        self.hint = hint


class UnknownProfileError(ProfileError):
    pass


class InvalidProfileError(ProfileError):
    pass


class TooManyProfilesError(ProfileError):
    pass


class ProfileLockedError(ProfileError):
    pass


class MissingProfileKeyError(ProfileLockedError):
    pass


class WrongProfileKeyError(ProfileLockedError):
    pass
