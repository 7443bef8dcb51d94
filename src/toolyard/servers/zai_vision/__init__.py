"""The `zai_vision` server: questions about images and videos to a vision model.

Asks Z.AI, any other endpoint with OpenAI's chat completions, or the client's own model by sampling. Owns
what is sent there: pictures that fit, from the workspace, the web or the call itself.
"""

from .server import build
from .settings import Settings

ENVIRONMENT = "TOOLYARD_ZAI_VISION_"

__all__ = ["ENVIRONMENT", "Settings", "build"]
