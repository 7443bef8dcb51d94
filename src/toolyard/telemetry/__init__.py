"""What is seen of a running gateway: spans, metrics and logs.

`observed` is what is known of one request, `watch` puts the rest around it. Owns no stage and no route:
who calls it and where `/metrics` is served is decided above.
"""
