"""What the bundled servers cost, where a figure was promised."""
