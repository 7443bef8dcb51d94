"""Connections to servers that want to know who calls: logins by OAuth, and the pages that people see."""
