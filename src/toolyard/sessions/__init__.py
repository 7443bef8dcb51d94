"""Sessions at upstreams, held for a conversation, and the credentials of a tenant."""

from .ciphers import cipher_for
from .errors import ProfileError
from .leases import Begin, Begun, Lease, Leases
from .profiles import Profile, Profiles

__all__ = ["Begin", "Begun", "Lease", "Leases", "Profile", "ProfileError", "Profiles", "cipher_for"]
