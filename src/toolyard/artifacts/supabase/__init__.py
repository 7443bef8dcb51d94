"""Buckets of Supabase Storage, by its REST API."""
