"""Programs written for FastMCP on our kit: drawn from its sdist, changed in their imports, run under both."""
