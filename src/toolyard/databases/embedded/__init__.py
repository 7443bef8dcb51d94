"""SQLite and DuckDB: engines that run in worker processes with limits of time and memory."""
