"""A server's answers to the protocol, one file per feature; `kit.service` puts them into its tables."""
