"""OAuth as a client of upstreams: discovery, registration, consent, and tokens kept and refreshed."""
