"""The cost of the bundled servers, where the documentation states a figure."""
