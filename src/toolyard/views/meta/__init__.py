"""The meta tools: a handful of definitions through which every tool is found, described and called."""
