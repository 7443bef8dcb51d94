"""Sessions at upstreams, held for a conversation, and the credentials of a tenant."""

from .leases import Begin, Begun, Lease, Leases

__all__ = ["Begin", "Begun", "Lease", "Leases"]
