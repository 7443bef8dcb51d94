"""What a caller may do: the rules of access, and the person who confirms a call."""
