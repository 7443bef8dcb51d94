"""Our own authorization server: people sign in, clients get tokens for the gateway."""
