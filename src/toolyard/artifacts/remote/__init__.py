"""Results in a bucket somewhere else: what all such stores have in common, and the seam below them."""
