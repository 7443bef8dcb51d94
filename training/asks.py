"""What people ask and the tool that serves it: {query, tool, source}. English; translated elsewhere.

None of it comes from the sets that the search is measured on, nor from their near copies.
"""

import csv
import io
import json
import re
from collections.abc import Iterator
from typing import Any

from . import intents
from .sources import API_BANK, BANKING, CLINC, GORILLA, NLU_DATA, SNIPS, TASK_BENCH, TOOL_ALPACA, Source
from .tools import Tool, tool

Ask = dict[str, Any]
_BFCL = "berkeley-function-call-leaderboard/bfcl_eval/data"
_FOLD = (
    "CrossValidation/out4RasaReal/rasa_json_2018_03_22-13_01_25_169_80Train/CrossValidation/"
    "KFold_{0}/merged/RasaNlu_Merged_KFold_{0}_2018_03_22-13_01_25_169.json"
)


def asks() -> Iterator[Ask]:
    for found in (_function_calls(), _alpaca(), _bank(), _home(), _spoken(), _clinc(), _banking(), _models()):
        yield from found


def requests() -> Iterator[dict[str, str]]:
    """Whole tasks as people would put them, without the tools that serve them (those files are not held)."""
    for kind in ("dailylifeapis", "multimedia", "huggingface"):
        for entry in TASK_BENCH.lines(f"taskbench/data_{kind}/user_requests.json"):
            yield {"query": " ".join(entry["user_request"].split())[:500], "source": TASK_BENCH.repository}


def _ask(query: str, wanted: Tool, source: Source) -> Ask:
    return {"query": " ".join(query.split())[:500], "tool": wanted, "source": source.repository}


def _function_calls() -> Iterator[Ask]:
    kinds = ("simple", "simple_python", "simple_java", "simple_javascript", "multiple", "parallel")
    names = {f"BFCL_v4_{live}{kind}" for kind in (*kinds, "parallel_multiple") for live in ("", "live_")}
    held = set(GORILLA.paths(_BFCL))
    for name in sorted(names):
        if f"{_BFCL}/possible_answer/{name}.json" not in held:
            continue
        answers = {a["id"]: a["ground_truth"] for a in GORILLA.lines(f"{_BFCL}/possible_answer/{name}.json")}
        for entry in GORILLA.lines(f"{_BFCL}/{name}.json"):
            query = " ".join(m["content"] for m in entry["question"][0] if m["role"] == "user")
            wanted = {called for answer in answers.get(entry["id"], []) for called in answer}
            for function in entry["function"]:
                if function["name"] in wanted:
                    yield _ask(query, _function(function), GORILLA)


def _function(entry: dict[str, Any]) -> Tool:
    server, _, name = entry["name"].rpartition(".")
    return tool(server, name, entry["description"], entry["parameters"].get("properties") or {})


def _alpaca() -> Iterator[Ask]:
    for path in ("data/eval_simulated.json", "data/eval_real.json"):
        for api in TOOL_ALPACA.json(path):
            functions = {
                found[0]: tool(api["Name"], found[0], found[1], re.findall(r'"(\w+)":', found[2]))
                for found in re.findall(
                    r"Name: (\w+)\n\s*Description: (.*)\n\s*Input: (.*)", api.get("Functions") or ""
                )
            }
            for query, answer in zip(api["Instructions"], api.get("Golden_Answers", []), strict=False):
                for action in answer:
                    if action.get("Action") in functions:
                        yield _ask(query, functions[action["Action"]], TOOL_ALPACA)


def _bank() -> Iterator[Ask]:
    apis = dict(_bank_apis())
    folder = "api-bank/lv1-lv2-samples/level-1-given-desc"
    for _, text in API_BANK.texts(API_BANK.paths(folder)):
        said: list[str] = []
        for line in text.splitlines():
            turn = json.loads(line)
            if turn["role"] == "User":
                said.append(turn["text"])
            elif turn["role"] == "API" and turn["api_name"] in apis and said:
                yield _ask(" ".join(said[:2]), apis[turn["api_name"]], API_BANK)


def _bank_apis() -> Iterator[tuple[str, Tool]]:
    for path, text in API_BANK.texts([p for p in API_BANK.paths("api-bank/apis") if p.endswith(".py")]):
        name = re.search(r"class (\w+)\(API\)", text)
        description = re.search(r"description = (['\"])(.*)\1", text)
        if name and description:
            arguments = re.search(r"input_parameters = \{(.*?)\n    \}", text, re.DOTALL)
            names = re.findall(r"^\s+['\"](\w+)['\"]: \{", arguments[1] if arguments else "", re.MULTILINE)
            server = path.rsplit("/", 1)[-1].split(".")[0]
            yield name[1], tool(server, name[1], description[2], names)


def _home() -> Iterator[Ask]:
    seen: dict[str, str] = {}
    for fold in (1, 2, 3, 4):
        for example in NLU_DATA.json(_FOLD.format(fold))["rasa_nlu_data"]["common_examples"]:
            seen[example["text"]] = example["intent"]
    for query, intent in seen.items():
        if intent in intents.HOME:
            yield _ask(query, tool(*intents.HOME[intent], []), NLU_DATA)


def _spoken() -> Iterator[Ask]:
    for intent, definition in intents.SPOKEN.items():
        path = f"2017-06-custom-intent-engines/{intent}/train_{intent}.json"
        for example in SNIPS.json(path)[intent]:
            slots = [part["entity"] for part in example["data"] if "entity" in part]
            query = "".join(part["text"] for part in example["data"])
            yield _ask(query, tool(*definition, slots), SNIPS)


def _clinc() -> Iterator[Ask]:
    for part, examples in CLINC.json("data/data_full.json").items():
        if not part.startswith("oos"):
            for query, intent in examples:
                yield _ask(query, tool("", intent, "", []), CLINC)


def _banking() -> Iterator[Ask]:
    for row in csv.DictReader(io.StringIO(BANKING.text("banking_data/train.csv"))):
        yield _ask(row["text"], tool("bank", row["category"].rstrip("?"), "", []), BANKING)


def _models() -> Iterator[Ask]:
    """Requests for a machine learning model and the model's page (APIBench)."""
    for path in ("torchhub_train", "torchhub_eval", "tensorflow_eval", "huggingface_eval"):
        for entry in GORILLA.lines(f"data/apibench/{path}.json"):
            found = re.search(
                r"Instruction'?:? ?(.*?)(?:, 'Output'|\n?###|$)", str(entry.get("code")), re.DOTALL
            )
            page = entry.get("api_data") or {}
            if found and 20 < len(found[1]) < 400:
                name = str(page.get("api_name") or page.get("functionality") or "")
                what = f"{page.get('functionality', '')}. {page.get('description', '')}"
                yield _ask(
                    found[1].strip(" :'\""), tool(str(page.get("domain", "")), name, what, []), GORILLA
                )
