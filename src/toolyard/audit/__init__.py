"""The audit: a record of every decision and call, in a hash chain; a killed process does not lose any."""

from .log import AuditLog, open_audit
from .record import AuditOutcome, AuditRecord, CallEnding, RecordTemplate, now
from .store import AuditStoreError, AuditUnavailableError

__all__ = [
    "AuditLog",
    "AuditOutcome",
    "AuditRecord",
    "AuditStoreError",
    "AuditUnavailableError",
    "CallEnding",
    "RecordTemplate",
    "now",
    "open_audit",
]
