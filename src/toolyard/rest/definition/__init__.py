"""API definitions: TOML files that describe a REST API as tools, read, checked and made ready to run."""
