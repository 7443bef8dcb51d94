"""The API call of `get_ticket` alone, by the function's own client: the minimum cost.

Runs in the function's Python, with the function's folder on its path. Its events are `{"number", "key"}`.
"""

import asyncio
import os

from toolyard.rest.http.client import ApiOrigin, RestClient, RestRequest

_loop = asyncio.new_event_loop()
_base = ApiOrigin.parse(os.environ["TIFLUX_API_BASE_URL"])
_client = RestClient(_base)


def handler(event, context):
    headers = {"Authorization": f"Bearer {event['key']}"}
    request = RestRequest("GET", f"{_base.base}/tickets/{event['number']}", headers)
    reply = _loop.run_until_complete(_client.send(request, 15.0, 1 << 24))
    return {"status": reply.status, "body": reply.body.decode()}
