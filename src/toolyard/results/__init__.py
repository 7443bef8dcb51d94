"""Results that fit a model's context: big ones are stored whole and shown as a summary and a preview."""
