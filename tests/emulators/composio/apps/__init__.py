"""The emulated apps: believable tools, each with a schema and a reply that depends on its arguments only."""

from ..catalogue import Catalogue
from . import code, github, gmail, google, microsoft, teams, websearch

CATALOGUE = Catalogue(
    [
        gmail.GMAIL,
        github.GITHUB,
        *google.TOOLKITS,
        *teams.TOOLKITS,
        *microsoft.TOOLKITS,
        *websearch.TOOLKITS,
        *code.TOOLKITS,
    ]
)
