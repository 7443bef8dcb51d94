"""The image and its compose file: what they would start is started here, without a container around it."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.cli.running import Toolyard
from tests.programs import needs
from tests.stores import RedisServer

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
TABLE = "/etc/toolyard/toolyard.toml"


def said(instruction: str) -> list[str]:
    """The words of the Dockerfile's last ENTRYPOINT or CMD, which are JSON there."""
    return json.loads(re.findall(rf"\b{instruction} (\[.*\])", DOCKERFILE)[-1])


@needs("redis")
def test_what_the_image_starts_serves_its_file_with_redis_and_is_well(tmp_path: Path):
    text = (ROOT / "deploy" / "toolyard.toml").read_text()
    url = re.search(r'url = "(redis://(\w+):\d+/0)"', text)
    assert url is not None
    assert url[2] in COMPOSE["services"]  # the name that the network of compose gives it
    toolyard = Toolyard(tmp_path)
    program, command, *arguments = said("ENTRYPOINT")
    assert (program, command) == ("toolyard", "serve")
    with RedisServer() as redis:
        config = toolyard.write("toolyard.toml", text.replace(url[1], redis.url))
        here = {TABLE: str(config), "0.0.0.0": "127.0.0.1"}
        more = [
            re.sub(r"\$\{\w+:-(\w+)\}", r"\1", word) for word in COMPOSE["services"]["toolyard"]["command"]
        ]
        key = {"TOOLYARD_KEY": "0123456789abcdef"}
        with toolyard.serving(*(here.get(word, word) for word in arguments), *more, **key) as served:
            called = toolyard("call", "mcp__demo__echo", "text=hello", "--url", served.url)
            check = [word.replace("8321", served.port) for word in said("CMD")]
            assert check[0] == "python"
            well = subprocess.run([sys.executable, *check[1:]], check=False)
            listed = toolyard("list", "--url", f"{served.url}/tiflux", "--json")
        ill = subprocess.run([sys.executable, *check[1:]], check=False, capture_output=True)
    assert (called.status, called.out) == (0, "hello\n"), called.err
    assert well.returncode == 0
    assert ill.returncode != 0
    assert "get_ticket" in listed.out, listed.err


def test_compose_gives_the_container_no_more_than_it_needs():
    service = COMPOSE["services"]["toolyard"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert ":?" in service["environment"]["TOOLYARD_KEY"]  # compose does not start without one
    places = {volume.split(":")[1] for volume in service["volumes"]}
    state = re.search(r"XDG_STATE_HOME=(\S+)", DOCKERFILE)
    assert state is not None
    assert any(Path(state[1]).is_relative_to(place) for place in places)
    assert str(Path(TABLE).parent) in places
    assert int(re.findall(r"^USER (\d+)$", DOCKERFILE, re.M)[-1]) > 0


def test_the_image_is_built_of_files_that_its_context_has():
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    copied = [
        word for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.M) for word in line.split()[:-1]
    ]
    assert copied
    for name in copied:
        assert (ROOT / name).exists()
        assert f"!{name}" in ignored
