"""What runs inside the box. Copied into it, and independent of the rest of the package."""
