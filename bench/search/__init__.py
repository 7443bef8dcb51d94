"""How well and how fast tools are found: ours beside other ways, on public sets of tools and queries."""
