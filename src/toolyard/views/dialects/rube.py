"""The `rube` dialect: Composio's meta tools under the prefix of its product Rube."""

from .composio import ComposioDialect


class RubeDialect(ComposioDialect):
    name = "rube"
    prefix = "RUBE"
