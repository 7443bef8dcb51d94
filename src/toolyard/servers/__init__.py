"""The servers that come with Toolyard, each on the kit and none knowing another."""
