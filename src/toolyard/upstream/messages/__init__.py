"""JSON-RPC messages of an upstream, of any size: collected, checked, read, and routed to their calls."""
