"""What a text means, as a vector: for the search of tools, and for servers that search texts of their own."""
