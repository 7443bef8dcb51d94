"""The last known good lists of every upstream, and why anything is missing."""
