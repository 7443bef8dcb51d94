"""Servers that a module makes with settings, and what they do when they close."""

from pathlib import Path

import pytest

from toolyard.kit import Server
from toolyard.kit.loader import LoadError, MissingExtraError, load, require_extra

SHOP = """
from msgspec import Struct
from toolyard.kit import Server

ENVIRONMENT = "TOOLYARD_SHOP_"

class Settings(Struct, frozen=True, kw_only=True):
    locale: str = "en"
    limit: int = 3

def build(settings: Settings) -> Server:
    return Server(f"shop-{settings.locale}-{settings.limit}")
"""


@pytest.fixture
def shop(tmp_path: Path) -> str:
    path = tmp_path / "shop.py"
    path.write_text(SHOP)
    return str(path)


def test_settings_come_from_options_then_from_the_environment(shop: str, monkeypatch: pytest.MonkeyPatch):
    assert load(shop).name == "shop-en-3"
    assert load(shop, options={"limit": "7"}).name == "shop-en-7"
    monkeypatch.setenv("TOOLYARD_SHOP_LOCALE", "pt")
    monkeypatch.setenv("TOOLYARD_SHOP_LIMIT", "9")
    assert load(shop).name == "shop-pt-9"
    assert load(shop, options={"limit": 1}).name == "shop-pt-1"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"limits": 1}, "unknown setting 'limits'; there are: locale, limit"),
        ({"limit": "many"}, "field 'limit'"),
    ],
)
def test_a_wrong_setting_is_named(shop: str, options: dict[str, object], said: str):
    with pytest.raises(LoadError) as caught:
        load(shop, options=options)
    assert said in caught.value.message


def test_a_limit_of_a_setting_that_would_be_ignored_is_refused(tmp_path: Path):
    path = tmp_path / "shop.py"
    limited = "limit: Annotated[int, Field(ge=1)] = 3"
    imports = "from typing import Annotated\nfrom pydantic import Field\n"
    path.write_text(imports + SHOP.replace("limit: int = 3", limited))
    with pytest.raises(LoadError, match=r"(?s)field 'limit' of 'Settings'.*msgspec\.Meta"):
        load(str(path))


def test_options_for_a_server_that_takes_none_are_refused(tmp_path: Path):
    path = tmp_path / "plain.py"
    path.write_text("from toolyard.kit import Server\nserver = Server('plain')\n")
    with pytest.raises(LoadError, match="takes no options"):
        load(str(path), options={"a": 1})


def test_a_missing_package_is_named_with_its_extra():
    require_extra("shop", "shop", "msgspec")
    with pytest.raises(MissingExtraError, match=r"no_such_package: .*extras add shop"):
        require_extra("shop", "shop", "msgspec", "no_such_package")


async def test_what_a_server_opened_is_closed_with_it_once_and_last_come_first_gone():
    server = Server("closing")
    closed: list[str] = []

    async def close(name: str) -> None:
        closed.append(name)
        if name == "bad":
            raise RuntimeError("cannot close")

    for name in ("first", "bad", "last"):
        server.on_close(lambda name=name: close(name))
    await server.close()
    await server.close()
    assert closed == ["last", "bad", "first"]
