"""Runs of agents from the command line: the gateway they use, the model, and what a person sees."""
