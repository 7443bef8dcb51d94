"""The official `render` package asks everything that our server asks. Runs in `build/envs/render`.

Takes an address and a key, prints what it got as JSON. Its generated client reads every reply into the models
that Render has made from its API, and fails when one does not fit.
"""

import json
import sys
from typing import Any

from render.public_api.api.deploys import list_deploys
from render.public_api.api.key_value import list_key_value, retrieve_key_value
from render.public_api.api.logs import list_logs
from render.public_api.api.postgres import list_postgres, retrieve_postgres
from render.public_api.api.services import list_services, retrieve_service
from render.public_api.api.workspaces import list_owners
from render.public_api.client import AuthenticatedClient
from render.public_api.models.log_direction import LogDirection


def services(client: AuthenticatedClient) -> list[Any]:
    """All of them, three on a page."""
    found: list[Any] = []
    more: dict[str, Any] = {}
    while page := list_services.sync(client=client, limit=3, **more):
        found += [item.service for item in page]
        more = {"cursor": page[-1].cursor}
    return found


def logs(client: AuthenticatedClient, owner: str, resource: str) -> list[list[str]]:
    """All of one service, page by page."""
    pages: list[list[str]] = []
    more: dict[str, Any] = {}
    while True:
        page = list_logs.sync(
            client=client,
            owner_id=owner,
            resource=[resource],
            direction=LogDirection.BACKWARD,
            limit=2,
            **more,
        )
        pages.append([log.message for log in page.logs])
        if not page.has_more:
            return pages
        more = {"start_time": page.next_start_time, "end_time": page.next_end_time}


def main(url: str, key: str) -> dict[str, Any]:
    client = AuthenticatedClient(base_url=url, token=key)
    known = services(client)
    first = known[0]
    wrong = list_owners.sync(client=AuthenticatedClient(base_url=url, token="another"))
    return {
        "owners": [item.owner.name for item in list_owners.sync(client=client)],
        "services": [service.name for service in known],
        "one": retrieve_service.sync(first.id, client=client).service_details.url,
        "deploy": list_deploys.sync(first.id, client=client, limit=1)[0].deploy.status.value,
        "postgres": [
            retrieve_postgres.sync(item.postgres.id, client=client).status.value
            for item in list_postgres.sync(client=client)
        ],
        "key_values": [
            retrieve_key_value.sync(item.key_value.id, client=client).status.value
            for item in list_key_value.sync(client=client)
        ],
        "logs": logs(client, first.owner_id, first.id),
        "wrong_key": wrong.message,
        "unknown": retrieve_service.sync("srv-none", client=client).message,
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2])))
