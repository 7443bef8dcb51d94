"""The third leg of the suite: our own authorization server, which a gateway has by `[auth.server]`.

The suite prints an address that a person has to open. The person is here: signs in as a local user, allows
what is asked for, and is sent back to the suite.
"""

import http.cookiejar
import json
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from html import unescape
from pathlib import Path

from .processes import child
from .servers import NotStarted, free_port, gateway
from .suite import HOME, LIMIT_S, ROOT, Result, Scenario, Suite, read_checks, say

REVISION = "authorization"
SCENARIOS = ("authorization-server-metadata-endpoint", "authorization-code-grant")
USER, PASSWORD = "suite", "a password for the suite"
TABLES = "[auth]\nrequired = true\n\n[auth.server]\n"
_VISIT = re.compile(r"^http://127\.0\.0\.1:\d+/oauth/authorize\?\S+$", re.M)
_HIDDEN = re.compile(r'<input type="hidden" name="flow" value="([^"]*)"')


def run_authorization(suite: Suite) -> Result:
    folder = HOME / "runs" / "authorization"
    folder.mkdir(parents=True, exist_ok=True)
    with gateway('module = "demo"', folder, TABLES) as url:
        base = url.partition("/mcp")[0]
        add_user(folder / "toolyard.toml")
        scenarios = ask(suite, base, register(base), folder)
    say("authorization server: done")
    return Result(REVISION, scenarios)


def ask(suite: Suite, base: str, client: str, folder: Path) -> list[Scenario]:
    results = folder / f"results-{int(time.time())}"
    log = folder / "suite.log"
    port = free_port()
    command = [suite.node, str(suite.package / "dist" / "index.js"), "authorization", "--url", base]
    command += ["--client-id", client, "--resource", f"{base}/mcp", "-p", str(port)]
    command += ["--output-dir", str(results)]
    with log.open("wb") as output, child(command, cwd=HOME, stdout=output, stderr=output) as process:
        approve(wait_for_address(process, log))
        process.wait(timeout=LIMIT_S)
    return [Scenario(name, True, read_checks(results, f"*{name}")) for name in SCENARIOS]


def add_user(config: Path) -> None:
    command = [sys.executable, "-m", "toolyard", "logins", "users", "add", USER, "--config", str(config)]
    done = subprocess.run(command, cwd=ROOT, input=PASSWORD, check=False, capture_output=True, text=True)
    if done.returncode:
        raise NotStarted(f"no user could be added:\n{done.stderr}")


def register(base: str) -> str:
    """A client that registers itself; the port of its redirect does not count."""
    body = {
        "client_name": "the suite",
        "redirect_uris": ["http://127.0.0.1/callback"],
        "token_endpoint_auth_method": "none",
    }
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{base}/oauth/register", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
        return json.load(answer)["client_id"]


def wait_for_address(process: "subprocess.Popen[bytes]", log: Path) -> str:
    for _ in range(LIMIT_S * 10):
        found = _VISIT.search(log.read_text("utf-8", errors="replace"))
        if found:
            return found[0]
        try:
            process.wait(timeout=0.1)
        except subprocess.TimeoutExpired:
            continue
        break
    raise NotStarted(f"the suite named no address to open; see {log.relative_to(ROOT)}")


def approve(url: str) -> None:
    cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
    browser = urllib.request.build_opener(cookies)
    page = browser.open(url, timeout=LIMIT_S)
    for action, values in (
        ("login", {"user": USER, "password": PASSWORD}),
        ("consent", {"decision": "allow"}),
    ):
        found = _HIDDEN.search(page.read().decode())
        assert found, f"no form to {action}"
        form = urllib.parse.urlencode({"flow": unescape(found[1]), **values}).encode()
        page = browser.open(urllib.parse.urljoin(page.url, action), form, timeout=LIMIT_S)
