"""Upstreams reached over HTTP, in either era."""
