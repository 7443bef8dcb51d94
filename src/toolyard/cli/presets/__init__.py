"""Servers that others wrote, added by name or from a `server.json`, each in an environment of its own."""
