"""The official MCP conformance suite against our own server and through the gateway; `make conformance`.

`suite` gets and runs the suite, `servers` starts what it talks to, `pairs` says which upstreams are compared
and how, `clients` runs our client (`client`) against the suite's own servers, `authorization` tries our
authorization server, `tables` prints and writes what came out.
"""
