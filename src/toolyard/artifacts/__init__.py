"""Stores whole results outside the conversation: in a folder, in object storage, or at Supabase."""
