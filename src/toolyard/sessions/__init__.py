"""Sessions at upstreams, held for a conversation, and the credentials of a tenant."""

from .leases import BeginSession, Lease, Leases, NewSession
from .profiles import CredentialProfile, ProfileError, ProfileStore, cipher_for

__all__ = [
    "BeginSession",
    "CredentialProfile",
    "Lease",
    "Leases",
    "NewSession",
    "ProfileError",
    "ProfileStore",
    "cipher_for",
]
