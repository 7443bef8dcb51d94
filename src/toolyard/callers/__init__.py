"""Who asks: from the credentials of a request to a `Principal`. What a principal may do is in `policy`."""
