"""What callers may do: the rules of `[access]`, compiled into the rights of each principal."""
