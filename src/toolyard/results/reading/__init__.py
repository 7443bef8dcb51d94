"""Reading back what was stored: by pages, by a JMESPath expression, or by SQL.

Imports nothing, since every worker would pay for it when it starts.
"""
