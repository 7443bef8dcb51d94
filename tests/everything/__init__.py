"""The everything-server: every fixture that the official conformance suite asks a server for.

Owns the names, texts, schemas and keys that the suite expects, written on the kit alone. Owns no protocol:
what a scenario demands of the wire has to come from the kit, or the scenario has to fail.
"""
