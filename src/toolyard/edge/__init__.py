"""Bytes to wire and wire to bytes: HTTP (ASGI), stdio, and what they share. Stands on `wire` alone."""
