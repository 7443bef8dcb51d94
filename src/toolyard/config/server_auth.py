"""How the gateway shows a server who it is: the key `auth` of a server's entry."""

from typing import Literal

from msgspec import Struct

from .secrets import Secret, Texts

AuthMode = Literal["oauth", "client_credentials", "token_exchange", "id_jag", "workload_identity"]
MODES: tuple[AuthMode, ...] = (
    "oauth",
    "client_credentials",
    "token_exchange",
    "id_jag",
    "workload_identity",
)
TokenAuthMethod = Literal["auto", "none", "client_secret_basic", "client_secret_post", "private_key_jwt"]


API_KEY = "api_key"
"""The mode of a key that a person enters; the others are ways of OAuth."""


class IdentityProvider(Struct, frozen=True, kw_only=True):
    """Where a user's ID token is exchanged for an ID-JAG; only for `id_jag`."""

    token_endpoint: str
    client_id: str
    client_secret: Secret = ""


class OAuthAuth(Struct, frozen=True, kw_only=True):
    """Tokens of OAuth, obtained in one way only."""

    mode: AuthMode = "oauth"
    """`oauth`: each caller consents in a browser. The others need nobody: all callers share one token, unless
    `subject` says otherwise."""
    client_id: str = ""
    client_secret: Secret = ""
    client_metadata_url: str = ""
    """The client id where the authorization server reads metadata of clients (CIMD)."""
    private_key: Secret = ""
    """PEM; signs assertions (`private_key_jwt`)."""
    key_id: str = ""
    algorithm: str = "ES256"
    token_auth: TokenAuthMethod = "auto"
    issuer: str = ""
    """The only authorization server to use, whatever the server's metadata say."""
    scopes: tuple[str, ...] = ()
    resource: str = ""
    omit_resource: bool = False
    audience: str = ""
    parameters: Texts = {}
    """Added to the authorization request."""
    prompt: str = ""
    dpop: bool = False
    subject_token: Secret = ""
    """What is exchanged: the token of a service or a user that all callers act for."""
    subject: Literal["", "caller"] = ""
    """`caller`: the token that each caller came with is exchanged, so that each has one of its own."""
    subject_issuer: str = ""
    """The issuer of callers' tokens that are exchanged; those of others are not shown to anybody."""
    subject_token_type: str = ""
    lists: Literal["", "client_credentials"] = ""
    """With what lists are read if callers act for themselves: with nothing, or as the client itself."""
    assertion_file: str = ""
    """A file with the workload's own token, as Kubernetes mounts it; read again for each token."""
    identity_provider: IdentityProvider | None = None

    @property
    def is_personal(self) -> bool:
        """Whether each caller has a token of its own."""
        return self.mode == "oauth" or self.acts_for_caller

    @property
    def acts_for_caller(self) -> bool:
        """Whether the token that a caller came with is exchanged for one at the server."""
        return self.subject == "caller"


class KeyAuth(Struct, frozen=True, kw_only=True):
    """A key that somebody enters once, on a page or with `toolyard login`; the vault keeps it."""

    header: str = ""
    """The header that carries it; empty: `Authorization`, or what a server in this process looks for."""
    prefix: str | None = None
    """The text before the key; None: `Bearer ` in the header Authorization, nothing in another."""
    variable: str = ""
    """The environment variable of a program that gets it."""
    per: Literal["caller", "all"] = "caller"
    """`all`: everybody uses one key, which whoever runs the gateway enters."""
    help: str = ""
    """The https address where people get a key."""
    label: str = ""
    """What the server calls it, such as `Personal access token`."""

    @property
    def mode(self) -> Literal["api_key"]:
        return "api_key"

    @property
    def is_personal(self) -> bool:
        return self.per == "caller"

    @property
    def acts_for_caller(self) -> bool:
        return False

    @property
    def sent_header(self) -> str:
        return self.header or "Authorization"

    def header_value(self, key: str) -> str:
        usual = "Bearer " if self.sent_header.lower() == "authorization" else ""
        return f"{usual if self.prefix is None else self.prefix}{key}"


ServerAuth = OAuthAuth | KeyAuth
