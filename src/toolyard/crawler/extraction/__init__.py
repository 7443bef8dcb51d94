"""Reads the body of a response: what it is, its main content as Markdown, and what it says about itself."""
