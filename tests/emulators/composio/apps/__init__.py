"""The emulated apps: believable tools, each with a schema and a reply that depends on its arguments only."""

from ..catalogue import Catalogue
from . import code, google, websearch, work

CATALOGUE = Catalogue([*google.TOOLKITS, *work.TOOLKITS, *websearch.TOOLKITS, *code.TOOLKITS])
