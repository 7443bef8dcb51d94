"""Who asks: credentials of requests, and the principals they show."""
