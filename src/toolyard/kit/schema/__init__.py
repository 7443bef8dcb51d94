"""JSON Schemas of authors' functions: from annotations to schemas, and from JSON to checked values."""
