"""Supabase Storage on loopback, as its REST API and its server's own source describe it.

What it has: buckets (list, get, create, update, empty, delete), objects (upload and replace as a form or as a
plain body, download with ranges, info, list, remove, move, copy), signed and public links, the service role
and the anonymous one. What it has not: transformations of images, signed and resumable uploads, `list-v2`,
row level security beyond those two roles.
"""

from .emulator import SupabaseEmulator as SupabaseEmulator
