"""HTTP/1.1 to one API: a small client and its connections."""
