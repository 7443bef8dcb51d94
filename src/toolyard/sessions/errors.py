"""What can go wrong with credential profiles. No message has a credential or a key in it.

ProfileError        names the profile or the setting at fault; `hint` says what to do
├── UnknownProfile  this tenant has none with that id
├── BadProfile      a name or a configuration that cannot be kept
├── TooMany         the tenant has as many as there may be
└── Locked          it cannot be opened or closed: nothing is changed, nothing is lost
    ├── NoKey       there is no key to do it with
    └── WrongKey    it was closed with another key
"""


class ProfileError(Exception):
    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}; hint: {hint}")
        self.message = message
        self.hint = hint


class UnknownProfile(ProfileError):
    pass


class BadProfile(ProfileError):
    pass


class TooMany(ProfileError):
    pass


class Locked(ProfileError):
    pass


class NoKey(Locked):
    pass


class WrongKey(Locked):
    pass
