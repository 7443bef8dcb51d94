"""One call of an author's function: its context, its questions to the client, its result, its task."""
