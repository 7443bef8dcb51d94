"""Reads stored results back: pages, JMESPath expressions and SQL.

Imports nothing, because every worker process would pay for it when it starts.
"""
