"""Tools on loan: whose they are, how many there may be, and when they are none any more."""

from typing import Any

from msgspec import Raw

from toolyard.catalogue.catalogue import Catalogue, CatalogueEntry, DiscoveredTools
from toolyard.catalogue.items import TOOLS, UpstreamItem, read_item
from toolyard.config import InProcess, ServerConfig
from toolyard.wire.messages import encode


def server(**options: Any) -> ServerConfig:
    return ServerConfig(name="shop", where=InProcess(module="shop"), **options)


def item(name: str, description: str = "") -> UpstreamItem:
    tool = {"name": name, "description": description, "inputSchema": {"type": "object"}}
    return read_item(TOOLS, Raw(encode(tool)))


def names(entries: list[CatalogueEntry]) -> list[str]:
    return [entry.name for entry in entries]


def test_a_loan_is_its_borrower_s_alone_and_in_no_list():
    catalogue = Catalogue()
    catalogue.add(server())
    assert names(catalogue.add_discovered("shop", [item("A"), item("B")], "ana")) == [
        "mcp__shop__A",
        "mcp__shop__B",
    ]
    assert catalogue.find_discovered("mcp__shop__A", "ana") is not None
    assert catalogue.find_discovered("mcp__shop__A", "bob") is None
    assert catalogue.all(TOOLS) == []
    assert catalogue.find(TOOLS, "mcp__shop__A") is None
    assert names(catalogue.discovered("ana")) == ["mcp__shop__B", "mcp__shop__A"]  # the last used at the end
    assert catalogue.discovered("bob") == []


def test_what_is_denied_is_not_lent_and_what_is_denied_later_is_not_there_any_more():
    catalogue = Catalogue()
    server_catalogue = catalogue.add(server(deny=("B*",), rename={"A": "first"}))
    assert names(catalogue.add_discovered("shop", [item("A"), item("B"), item("C")], "ana")) == [
        "mcp__shop__first",
        "mcp__shop__C",
    ]
    assert catalogue.find_discovered("mcp__shop__A", "ana") is None
    server_catalogue.reconfigure(server(deny=("C",)))
    assert catalogue.discovered("ana") == []  # one is denied, the other has another name now
    assert catalogue.find_discovered("mcp__shop__C", "ana") is None


def test_what_is_listed_needs_no_loan():
    catalogue = Catalogue()
    server_catalogue = catalogue.add(server())
    server_catalogue.replace_list(TOOLS, (item("A", "as it is listed"),))
    (entry,) = catalogue.add_discovered("shop", [item("A", "as it was found")], "ana")
    assert b"as it is listed" in entry.item.rest
    assert catalogue.discovered("ana") == []


def test_with_its_server_a_loan_goes_too():
    catalogue = Catalogue()
    catalogue.add(server())
    catalogue.add_discovered("shop", [item("A")], "ana")
    catalogue.remove("shop")
    catalogue.add(server())
    assert catalogue.find_discovered("mcp__shop__A", "ana") is None
    assert catalogue.add_discovered("another", [item("A")], "ana") == []


def test_a_borrower_keeps_what_was_used_last():
    lending = DiscoveredTools(max_each=2)
    lend(lending, "ana", "A", "B")
    assert lending.find("A", "ana") is not None
    lend(lending, "ana", "C")
    assert names(lending.all("ana")) == ["A", "C"]
    lend(lending, "ana", "A")
    assert names(lending.all("ana")) == ["C", "A"]


def test_when_it_is_too_much_in_all_who_came_longest_ago_loses_everything():
    lending = DiscoveredTools(max_bytes=3000)
    for borrower in ("ana", "bob", "cid"):
        lend(lending, borrower, "A")
    assert lending.find("A", "ana") is not None
    lend(lending, "dan", "A", "B", "C")
    assert lending.all("bob") == []
    assert names(lending.all("dan")) == ["A", "B", "C"]
    lend(lending, "dan", *(f"T{number}" for number in range(50)))
    assert lending.all("cid") == []
    assert names(lending.all("dan"))[-1] == "T49"
    assert len(lending.all("dan")) < 6


def test_who_has_nothing_on_loan_takes_no_room():
    lending = DiscoveredTools()
    for number in range(1000):
        lend(lending, f"thread {number}")
    assert len(lending) == 0
    lend(lending, "ana", "A")
    assert len(lending) == 1
    lending.forget("shop")
    assert len(lending) == 0


def lend(lending: DiscoveredTools, whose: str, *tools: str) -> None:
    lending.add([CatalogueEntry("shop", name, name, item(name)) for name in tools], whose)
