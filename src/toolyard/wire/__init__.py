"""The protocol, pure: no sockets, no files, no event loop.

`versions` and `eras` say which revision a request speaks, `messages` and `types` what it says,
`headers` and `sse` how HTTP carries it, `errors` how it is refused, `seal` how state that leaves the
process comes back untouched, and `call` the one seam between an edge and whatever answers it.
"""
