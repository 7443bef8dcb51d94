"""The official `composio` package, told what to do by lines of JSON. Runs in `build/envs/composio`.

Reads `{"do": name, "at": url, "key": key, "with": {…}, "settings": {…}, "environment": {…}}` from stdin and
answers `{"done": …}`, or `{"failed": class, "message": …, "status": …}`. The package is used as it is, with
two settings: it sends no telemetry, and its HTTP client checks every reply against the models that Composio
has generated from its API, where it would otherwise take what comes.
"""

import json
import os
import sys
from typing import Any

from composio import Composio
from composio.core.models._files import FileUploadable


def client(url: str, key: str, **settings: Any) -> Composio:
    settings = {"api_key": key, "allow_tracking": False, "max_retries": 1, **settings}
    made = Composio(base_url=url, **settings)
    # The generated client has this mode, the package around it has no switch for it.
    made.client._strict_response_validation = True
    return made


def plain(value: Any) -> Any:
    return value.model_dump(mode="json", by_alias=True) if hasattr(value, "model_dump") else value


def create(composio: Composio, **config: Any) -> Any:
    session = composio.create(**config, mcp=True)
    mcp = {"type": session.mcp.type, "url": session.mcp.url, "headers": session.mcp.headers}
    return {"id": session.session_id, "mcp": mcp, "config": plain(session.config)}


def use(composio: Composio, session: str) -> Any:
    again = composio.use(session)
    return {"id": again.session_id, "user": again.config.user_id, "version": again.config_version}


def search(composio: Composio, session: str, query: str) -> Any:
    return plain(composio.use(session).search(query=query))


def execute(composio: Composio, session: str, slug: str, arguments: dict[str, Any]) -> Any:
    return plain(composio.use(session).execute(slug, arguments=arguments))


def execute_meta(composio: Composio, session: str, slug: str, arguments: dict[str, Any]) -> Any:
    return plain(composio.use(session).execute_meta(slug, arguments=arguments))


def session_tools(composio: Composio, session: str) -> Any:
    return [tool["function"]["name"] for tool in composio.use(session).tools()]


def session_toolkits(composio: Composio, session: str, **filters: Any) -> Any:
    found = composio.use(session).toolkits(**filters)
    return {
        item.slug: item.connection.is_active if item.connection else item.is_no_auth for item in found.items
    }


def authorize(composio: Composio, session: str, toolkit: str) -> Any:
    request = composio.use(session).authorize(toolkit)
    return {"id": request.id, "status": request.status, "link": request.redirect_url}


def wait(composio: Composio, account: str) -> Any:
    return composio.connected_accounts.wait_for_connection(account, timeout=20).status


def status(composio: Composio, account: str) -> Any:
    return composio.connected_accounts.get(account).status


def change(composio: Composio, session: str, **changes: Any) -> Any:
    held = composio.use(session)
    held.update(**changes)
    history = [(entry.version, entry.is_current) for entry in held.list_config_history().items]
    return {"version": held.config_version, "config": plain(held.config), "history": history}


def delete(composio: Composio, session: str) -> Any:
    return composio.use(session).delete()


def mount(composio: Composio, session: str, name: str, content: str) -> Any:
    """Upload to the session's files, list, download, delete."""
    files = composio.use(session).experimental.files
    files.upload(content.encode(), remote_path=name, mimetype="text/plain")
    listed = [item.mount_relative_path for item in files.list().items]
    read = files.download(name).text()
    files.delete(name)
    return {"listed": listed, "read": read, "left": len(files.list().items)}


def proxy(composio: Composio, session: str, toolkit: str) -> Any:
    return plain(composio.use(session).proxy_execute(toolkit=toolkit, endpoint="/me", method="GET"))


def tools(composio: Composio, **filters: Any) -> Any:
    return [tool["function"]["name"] for tool in composio.tools.get(**filters)]


def run(composio: Composio, slug: str, **how: Any) -> Any:
    return composio.tools.execute(slug, **how)


def upload(composio: Composio, path: str, tool: str, toolkit: str) -> Any:
    """A file as the package itself stores it for an argument of a tool."""
    return plain(FileUploadable.from_path(client=composio.client, file=path, tool=tool, toolkit=toolkit))


def mount_and_run(composio: Composio, session: str, name: str, content: str, code: str) -> Any:
    """Put a file into the session's mount, and run code in its workbench."""
    held = composio.use(session)
    held.experimental.files.upload(content.encode(), remote_path=name, mimetype="text/plain")
    return plain(held.execute_meta("COMPOSIO_REMOTE_WORKBENCH", arguments={"code_to_execute": code}))


def bridge(composio: Composio, user: str, local: str, remote: str, back: str) -> Any:
    """Toolyard's `WorkbenchBridge` with the package's client, as a program with both has it."""
    sys.path.extend(path for path in os.environ["TOOLYARD_PATHS"].split(":") if path not in sys.path)
    from toolyard.workbench.bridge import WorkbenchBridge

    held = WorkbenchBridge(composio, user)
    return [held.upload(local, remote), held.download(remote, back)]


def toolkits(composio: Composio, slug: str) -> Any:
    one = composio.toolkits.get(slug)
    fields = composio.toolkits.get_connected_account_initiation_fields(slug, one.auth_config_details[0].mode)
    return {
        "all": [item.slug for item in composio.toolkits.list(limit=100).items],
        "one": one.slug,
        "fields": [field.name for field in fields],
        "categories": [item.id for item in composio.toolkits.list_categories()],
    }


def link(composio: Composio, user: str, toolkit: str) -> Any:
    """Without a session: an auth config, and a link for it."""
    managed = {"type": "use_composio_managed_auth"}
    config = composio.auth_configs.create(toolkit=toolkit, options=managed)
    listed = [item.id for item in composio.auth_configs.list(toolkit_slug=toolkit).items]
    request = composio.connected_accounts.link(user, config.id)
    return {"config": config.id, "listed": listed, "id": request.id, "link": request.redirect_url}


def accounts(composio: Composio, **filters: Any) -> Any:
    found = composio.connected_accounts.list(**filters).items
    return [[item.user_id, item.toolkit.slug, item.status] for item in found]


def initiate(composio: Composio, user: str, toolkit: str, options: dict[str, Any], state: Any) -> Any:
    """The older way: an auth config, and an account made with it."""
    config = composio.auth_configs.create(toolkit=toolkit, options=options)
    return composio.connected_accounts.initiate(user, config.id, config=state).status


def mcp_server(composio: Composio, name: str, toolkits: list[Any], allowed: list[str], user: str) -> Any:
    server = composio.mcp.create(name, toolkits=toolkits, allowed_tools=allowed)
    return {"id": server.id, "made": server.generate(user), "listed": len(composio.mcp.list()["items"])}


def main() -> None:
    # What a worker of the package prints must not come between the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        order = json.loads(line)
        os.environ.update(order["environment"])
        try:
            composio = client(order["at"], order["key"], **order["settings"])
            answer = {"done": globals()[order["do"]](composio, **order["with"])}
        except Exception as error:  # The test says which error it expects.
            code = getattr(error, "status_code", None)
            answer = {"failed": type(error).__name__, "message": str(error), "status": code}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
