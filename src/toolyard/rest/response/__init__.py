"""From the API's response to the tool's result."""
