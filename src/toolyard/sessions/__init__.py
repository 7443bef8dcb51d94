"""Sessions at upstreams, held for a conversation, and the credentials of a tenant."""

from .leases import BeginSession, Lease, Leases, NewSession
from .old_profiles import OldProfiles
from .profile_errors import ProfileError
from .profiles import CredentialProfile, ProfileStore

__all__ = [
    "BeginSession",
    "CredentialProfile",
    "Lease",
    "Leases",
    "NewSession",
    "OldProfiles",
    "ProfileError",
    "ProfileStore",
]
