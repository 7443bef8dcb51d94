"""The configuration file of a command: found, loaded, and changed."""
