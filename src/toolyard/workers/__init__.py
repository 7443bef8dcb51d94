"""Runs work in child processes with limits on time and memory.

`pool` starts and ends the processes, and shares them fairly among callers; `process` runs in each of them.
Knows nothing about the work: requests and answers are bytes.
"""
