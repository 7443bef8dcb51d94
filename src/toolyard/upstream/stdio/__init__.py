"""Upstreams that are child processes, from installing and starting them to ending all they started."""
