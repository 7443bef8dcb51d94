"""From the arguments of a call to the request that is sent."""
