"""Where callers log in to servers. Apart from the pages, which are imported when a server needs them."""

CONNECT_PATH = "/oauth/connect/"
CALLBACK_PATH = "/oauth/callback"
KEY_PATH = "/connections/key/"
