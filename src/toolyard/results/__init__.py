"""Results that fit a model's context: what is big is stored whole and shown as a summary and a preview."""
