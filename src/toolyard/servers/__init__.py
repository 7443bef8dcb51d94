"""The servers that come with Toolyard. Each is built on the kit; none imports another."""
