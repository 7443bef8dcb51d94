"""The cost of shaping results: the stage for small ones, shaping of big ones, and reading them back."""
