"""The same server, which asks by ending the call, and so in the modern era alone."""

from tests.everything_sdk2 import dialogue
from tests.everything_sdk2.__main__ import main

if __name__ == "__main__":
    dialogue.ASKS_IN.intersection_update({"modern"})
    main()
