"""The four documents."""

from tests.seeds.capabilities import CAPABILITIES
from tests.seeds.suna import SUNA
from tests.seeds.tiflux_lambda import TIFLUX_LAMBDA
from tests.seeds.universal_agent import UNIVERSAL_AGENT

SEEDS = (SUNA, CAPABILITIES, TIFLUX_LAMBDA, UNIVERSAL_AGENT)
