"""Servers that are tables: a REST API as tools, described in TOML, on one engine."""
