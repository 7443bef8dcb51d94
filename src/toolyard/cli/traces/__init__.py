"""How a trace is shown: as a tree in the terminal, and as a page."""
