"""One call of an author's function: context, questions to the client, result, task."""
