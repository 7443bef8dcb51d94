"""The forms that data has in results: JSON in parts, texts, tables, and values cut to a size.

Pure: no settings, no store, no event loop. The processes that run queries import nothing else of
`results`.
"""
