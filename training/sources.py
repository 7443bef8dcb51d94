"""Where the training data comes from: one entry per public repository, with the commit and the licence.

Each is expected as a git directory (a clone, bare or not) named `owner+name` in the clones folder.
"""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BUILD = Path("build/training")
CLONES = BUILD / "clones"


@dataclass(frozen=True)
class Source:
    repository: str
    commit: str
    licence: str

    @property
    def folder(self) -> Path:
        return CLONES / self.repository.replace("/", "+")

    def text(self, path: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(self.folder), "show", f"HEAD:{path}"], capture_output=True, check=True
        )
        return done.stdout.decode("utf-8", "replace")

    def json(self, path: str) -> Any:
        return json.loads(self.text(path))

    def lines(self, path: str) -> Iterator[Any]:
        for line in self.text(path).splitlines():
            if line.strip():
                yield json.loads(line)

    def paths(self, under: str = "") -> list[str]:
        command = ["git", "-C", str(self.folder), "ls-tree", "-r", "-z", "--name-only", "HEAD"]
        done = subprocess.run([*command, *([under] if under else [])], capture_output=True, check=True)
        return [p.decode() for p in done.stdout.split(b"\0") if p]

    def texts(self, paths: list[str]) -> Iterator[tuple[str, str]]:
        """Many files through one process; a file that the clone does not hold is left out."""
        asked = "".join(f"HEAD:{path}\n" for path in paths).encode()
        command = ["git", "-C", str(self.folder), "cat-file", "--batch"]
        done = subprocess.run(command, input=asked, capture_output=True, check=True)
        at = 0
        for path in paths:
            end = done.stdout.index(b"\n", at)
            header = done.stdout[at:end].split()
            at = end + 1
            if len(header) == 3 and header[1] == b"blob":
                size = int(header[2])
                yield path, done.stdout[at : at + size].decode("utf-8", "replace")
                at += size + 1


# Tools and what people ask of them.
GORILLA = Source("ShishirPatil/gorilla", "6ea57973c7a6097fd7c5915698c54c17c5b1b6c8", "Apache-2.0")
TOOL_ALPACA = Source("tangqiaoyu/ToolAlpaca", "189069998d64a7baf1b4a1c3c4b2e75eb9d05532", "Apache-2.0")
API_BANK = Source("AlibabaResearch/DAMO-ConvAI", "483554eae102996f5ec1f4feab4e78ef29c2a394", "MIT")
NLU_DATA = Source("xliuhw/NLU-Evaluation-Data", "f6071b496b17d71e6eb43f543af0707f4ff30557", "CC BY 4.0")
SNIPS = Source("sonos/nlu-benchmark", "b86ac7f1577868c42158d0dec77db50956046696", "CC0-1.0")
TASK_BENCH = Source("microsoft/JARVIS", "c62e0faac76c4a2907cabe2cfe4bbe5f2e613400", "MIT")
CLINC = Source("clinc/oos-eval", "828f8093932c8fe6ca7936c3d2e52903b1c523de", "CC BY 3.0")
BANKING = Source("PolyAI-LDN/task-specific-datasets", "57ec275d8078af65b7731c2a98be812d844a6d6b", "CC BY 4.0")
PUBLIC_APIS = Source("public-apis/public-apis", "c045a2eb505f0f8b7992bb4af53cc020f25003fd", "MIT")
MCP_SERVERS = Source("punkpeye/awesome-mcp-servers", "cbcdf8f7700cfe4c0ef9aeb232f64aeebe8a184c", "MIT")
OPENAPI = Source("APIs-guru/openapi-directory", "59a08137c7eba62b2ee3e1f2fd04dbdf51182c97", "CC0-1.0")

# The same sentence in English and Portuguese, written by people.
TLDR = Source("tldr-pages/tldr", "08e345f42639f67d99282813247ac670dc6e87cb", "CC BY 4.0")
GITEA = Source("go-gitea/gitea", "1fa6465efd569df515438bb100bddd1c9969ca29", "MIT")
ROCKET_CHAT = Source(
    "RocketChat/Rocket.Chat", "a834e1707691413778cb74f379328929979541f1", "MIT (outside ee/)"
)
CHATWOOT = Source(
    "chatwoot/chatwoot", "4339e0ee0add0616d56bc0bb74e1f38ecc8dd8f2", "MIT (outside enterprise/)"
)
ZULIP = Source("zulip/zulip", "668661774650afdc91c203de5011cc0b1b86d6c7", "Apache-2.0")
SUPERSET = Source("apache/superset", "f2610e9dca01cb35e831bb89c3fcd5ef17111482", "Apache-2.0")
JITSI = Source("jitsi/jitsi-meet", "52d01b705fcd360d1970da4bc3e1e1e137fe92a9", "Apache-2.0")
MAP_TAGS = Source("openstreetmap/id-tagging-schema", "44eff2b82b8bc3e8a2e1d2135a7c58c9b9a08dcf", "ISC")
CLOCK = Source(
    "LineageOS/android_packages_apps_DeskClock", "501626741b616e5e41ad4b316e8cc9d8989a7967", "Apache-2.0"
)
SETTINGS = Source(
    "LineageOS/android_packages_apps_Settings", "b136b3f2f801f86ab184b9cfb0b580fa9aa5c148", "Apache-2.0"
)
CONTACTS = Source(
    "LineageOS/android_packages_apps_Contacts", "41570c7a7ae33052338af7730c7c64f871dc391d", "Apache-2.0"
)
SKILLS = (
    Source("OpenVoiceOS/ovos-skill-alerts", "a58dfac2744c4a0fbbf5eeb14d4a3eb48b23bd4a", "BSD-3-Clause"),
    Source("OpenVoiceOS/ovos-skill-weather", "41ebc2b7f98fdc3b39f6ee4538fe6d778ad84ed2", "Apache-2.0"),
    Source("OpenVoiceOS/ovos-skill-volume", "e85968d97670c4c0d45ae4143eeca9100cd33b56", "Apache-2.0"),
    Source("OpenVoiceOS/ovos-skill-date-time", "16437cfb623ad47b387663c6c969e3905173b127", "Apache-2.0"),
    Source("OpenVoiceOS/ovos-skill-homescreen", "13a28d75767a58c6e43f45890116b065dd0664c0", "Apache-2.0"),
    Source("MycroftAI/mycroft-timer", "89a64aa4e2db8de4b65ce4fa045b89d61e935bb1", "Apache-2.0"),
    Source("MycroftAI/mycroft-core", "ab242a2c821553e6ecde0fa656f3be0331aef738", "Apache-2.0"),
)
