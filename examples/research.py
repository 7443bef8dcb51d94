"""Two servers to try access rules with: the tools of a research agent, which only say what they would do."""

from typing import Any

from toolyard.kit import Server

local_toolkit = Server("local_toolkit", version="1.0.0", title="Local files and the web")
composio = Server("composio", version="1.0.0", title="Apps of the user, as Composio has them")


@local_toolkit.tool
def save_corpus(articles: list[Any], workspace_path: str) -> str:
    """Save the articles that were read, whole, as expanded_corpus.json."""
    return f"would save {len(articles)} articles in {workspace_path}"


@local_toolkit.tool
def write_local_file(path: str, content: str) -> str:
    """Write a file of the workspace."""
    return f"would write {len(content)} characters to {path}"


@local_toolkit.tool
def workbench_download(remote_path: str, local_path: str) -> str:
    """Fetch a file from the remote workbench."""
    return f"would copy {remote_path} to {local_path}"


@local_toolkit.tool
def workbench_upload(local_path: str, remote_path: str) -> str:
    """Send a file to the remote workbench."""
    return f"would copy {local_path} to {remote_path}"


@local_toolkit.tool
def upload_to_composio(path: str) -> str:
    """Upload a file, for attachments."""
    return f"would upload {path}"


@local_toolkit.tool
def crawl_parallel(urls: list[str], session_dir: str) -> str:
    """Read web pages and save them as Markdown."""
    return f"would read {len(urls)} pages into {session_dir}"


@composio.tool(name="COMPOSIO_SEARCH_NEWS", read_only=True)
def search_news(query: str) -> str:
    """Search the news."""
    return f"would search the news for {query}"


@composio.tool(name="COMPOSIO_SEARCH_WEB", read_only=True)
def search_web(query: str) -> str:
    """Search the web."""
    return f"would search the web for {query}"


@composio.tool(name="GMAIL_SEND_EMAIL")
def send_email(to: str, subject: str, body: str) -> str:
    """Send a mail."""
    return f"would send {subject!r} to {to}"


@composio.tool(name="COMPOSIO_REMOTE_WORKBENCH")
def remote_workbench(code_to_execute: str) -> str:
    """Run Python in a sandbox far away."""
    return f"would run {len(code_to_execute)} characters of Python"
