"""Secrets at rest: sealed under keys of their tenants, shared by all replicas."""
