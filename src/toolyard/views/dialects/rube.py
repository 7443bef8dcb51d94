"""The `rube` dialect: Composio's meta tools under the prefix of its product Rube."""

from .composio import Composio


class Rube(Composio):
    name = "rube"
    prefix = "RUBE"
