"""A crawler: fetches pages politely, reads their main content as Markdown, and names what stood in the way.

`crawler` takes addresses and rules, and gives pages and failures (`outcomes`); `files` makes texts of them.
Needs the extra `crawl`. Imports nothing here, because the processes that read pages need only `extraction`.
"""
