"""Bytes to wire and wire to bytes: HTTP (ASGI), stdio, and what they share. Knows `wire` and nothing above."""
