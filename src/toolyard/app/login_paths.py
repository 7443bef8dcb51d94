"""Where the pages are on which callers log in to servers. Apart from those, whose parts are not always imported."""

CONNECT_PATH = "/oauth/connect/"
CALLBACK_PATH = "/oauth/callback"
