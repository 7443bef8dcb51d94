"""Buckets of S3, GCS and Azure, through obstore. Needs the extra `objects`."""
