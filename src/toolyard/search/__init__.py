"""Finding the few tools that fit a use case: documents, the index over them, the ranking, and feedback."""
