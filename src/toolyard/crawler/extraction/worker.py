"""`python -m toolyard.crawler.extraction.worker`: reads bodies in a process of its own, with limits.

A page that makes a parser hang, eat memory or crash costs this process, never the server.
"""

from ...workers.process import limit_memory, restrict_process, serve

MEMORY = 768 * 2**20
"""Bytes beyond those of the loaded libraries."""


def main() -> None:
    restrict_process()
    from .document import Body, answer, read_body

    # Loads what the first page needs, before the limit.
    read_body(
        Body(
            url="http://example.com/",
            data=b"<html><body><p>Some words about nothing.</p></body></html>",
            content_type="text/html",
        )
    )
    limit_memory(MEMORY)
    serve(answer)


if __name__ == "__main__":
    main()
