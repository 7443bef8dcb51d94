"""The same server, which asks in the middle of a call, and so in the legacy era alone."""

from tests.everything_sdk2 import dialogue
from tests.everything_sdk2.__main__ import main

if __name__ == "__main__":
    dialogue.ASKS_IN.intersection_update({"legacy"})
    main()
