"""Results in a remote bucket: the store for all services, and the buckets of each."""
