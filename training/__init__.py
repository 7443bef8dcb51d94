"""How the embedding and the word list of `toolyard.search` are made. Never imported by the package."""
