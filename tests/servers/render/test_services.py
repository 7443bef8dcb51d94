"""Services are found by what the API says, and their logs page by page."""

from tests.emulators.render import API_KEY, RenderEmulator
from tests.servers.render.talking import at


async def test_a_service_is_meant_by_its_name_its_id_its_slug_or_its_kind(render: RenderEmulator) -> None:
    world = render.world
    made = {
        "shop-web": world.service("shop-web"),
        "shop-worker": world.service("shop-worker", "background_worker"),
        "nightly": world.service("nightly", "cron_job"),
        "shop-db": world.database("shop-db"),
        "shop-cache": world.key_value("shop-cache"),
    }
    for name, id in made.items():
        world.log(id, f"of {name}", ago=10)
    async with at(render) as talk:
        for asked, name in (
            ("SHOP-WEB", "shop-web"),
            (made["shop-worker"], "shop-worker"),
            ("shop-worker-x1", "shop-worker"),
            ("web", "shop-web"),
            ("worker", "shop-worker"),
            ("cron_job", "nightly"),
            ("postgres", "shop-db"),
            ("redis", "shop-cache"),
        ):
            assert (await talk.logs(service=asked)).messages == [f"of {name}"], asked
        assert (await talk.logs(service="all")).structured["total_logs"] == 5
        # A database's logs are of one type only, so that none is asked for.
        assert not any(name == "type" for name, _ in render.asked_for("/logs")[-3])


async def test_an_unknown_name_gets_suggestions_and_a_kind_that_nobody_has_the_list(
    render: RenderEmulator,
) -> None:
    render.world.service("shop-web")
    render.world.service("shop-admin")
    async with at(render) as talk:
        assert "Did you mean 'shop-admin'? There are: 'shop-admin', 'shop-web'" in await talk.refusal(
            service="admin"
        )
        assert "no service 'zzz'. There are: 'shop-admin', 'shop-web'" in await talk.refusal(service="zzz")
        assert "no service of the kind 'postgres'" in await talk.refusal(service="postgres")


async def test_all_of_many_services_are_known_and_listed_again_only_when_a_name_is_new(
    render: RenderEmulator,
) -> None:
    world = render.world
    last = [world.service(f"s{number:03d}") for number in range(230)][-1]
    world.log(last, "here", ago=5)
    async with at(render) as talk:
        assert (await talk.logs(service="s229")).messages == ["here"]
        assert len(render.asked_for("/services")) == 3
        assert (await talk.logs(service="s001")).messages == []
        assert len(render.asked_for("/services")) == 3
        world.service("brand-new")
        assert (await talk.logs(service="brand-new")).messages == []
        assert len(render.asked_for("/services")) == 6
    async with at(render, cache_seconds=0) as talk:
        await talk.logs(service="s001")
        await talk.logs(service="s001")
        assert len(render.asked_for("/services")) == 12


async def test_only_the_services_of_the_workspace_that_is_set_are_seen(render: RenderEmulator) -> None:
    world = render.world
    other = world.owner("tea-other", "Other Team")
    theirs = world.service("twin", owner=other)
    ours = world.service("twin")
    world.log(ours, "ours", ago=5)
    world.log(theirs, "theirs", ago=6)
    async with at(render) as talk:
        assert (await talk.logs(service="twin")).messages == ["ours", "theirs"]
    for owner in ("other team", "tea-other"):
        async with at(render, owner=owner) as talk:
            assert (await talk.logs(service="twin")).messages == ["theirs"]
    async with at(render, owner="nobody") as talk:
        assert "a workspace 'nobody'; it sees: 'Shop Team', 'Other Team'" in await talk.refusal()


async def test_logs_are_read_page_by_page_until_there_are_enough_and_the_client_hears_how_far(
    render: RenderEmulator,
) -> None:
    web = render.world.service("shop-web")
    for number in range(60):
        render.world.log(web, f"line {number}", ago=number + 1)
    render.door.page = 8
    async with at(render) as talk:
        for overlapping in (False, True):
            render.door.overlapping = overlapping
            talk.progress.clear()
            said = await talk.logs(limit=30)
            assert said.messages == [f"line {number}" for number in range(30)]
            assert said.structured["has_more"] is True
            assert len(talk.progress) >= 3
            assert [done for done, _, _ in talk.progress] == sorted(done for done, _, _ in talk.progress)
            assert talk.progress[0] == (8, 30, "entries so far: 8")
        said = await talk.logs(limit=100)
        assert len(said.messages) == 60
        assert said.structured["has_more"] is False


async def test_a_render_that_never_gets_further_is_not_asked_for_ever(render: RenderEmulator) -> None:
    web = render.world.service("shop-web")
    moment = render.world.log(web, "one", ago=5)
    for _ in range(20):
        render.world.log(web, "same moment").at = moment.at
    render.door.page, render.door.overlapping = 4, True
    async with at(render) as talk:
        said = await talk.logs(limit=10)
        assert len(said.messages) == 4
        assert said.structured["has_more"] is True


async def test_services_in_several_regions_are_asked_apart_and_their_logs_put_in_order(
    render: RenderEmulator,
) -> None:
    world = render.world
    here, there = world.service("here", region="frankfurt"), world.service("there", region="oregon")
    for number in range(6):
        world.log((here, there)[number % 2], f"line {number}", ago=number + 1)
    async with at(render) as talk:
        said = await talk.logs(service="web", limit=5)
        assert said.messages == [f"line {number}" for number in range(5)]
        assert said.structured["has_more"] is True
        assert [entry["service"] for entry in said.structured["entries"]][:2] == ["here", "there"]
        render.door.page = 1
        assert (await talk.logs(service="web", limit=3)).messages == ["line 0", "line 1", "line 2"]
        assert [done for done, _, _ in talk.progress] == [1, 2]


async def test_status_names_what_is_wrong_with_each_service_and_answers_for_the_others(
    render: RenderEmulator,
) -> None:
    world = render.world
    web = world.service("shop-web")
    world.service("asleep", suspended=True)
    broken = world.service("broken", "background_worker", deploy="build_failed")
    world.service("docs", "static_site")
    world.database("shop-db", "unavailable")
    world.key_value("shop-cache")
    for number in range(130):
        world.log(web, "again", ago=number, level="error")
    render.fail(f"/services/{broken}", 404)
    render.fail("/key-value", 403)
    async with at(render) as talk:
        status = await talk.status()
        assert {name: service["ok"] for name, service in status.items()} == {
            "shop-web": True,
            "asleep": False,
            "broken": False,
            "docs": True,
            "shop-db": False,
            "key-value": False,
        }
        assert (status["shop-web"]["errors_15min"], status["shop-web"]["errors_has_more"]) == (100, True)
        assert status["asleep"]["suspended"] is True
        assert status["broken"]["deploy"] == "build_failed"
        assert "(404)" in status["broken"]["problem"]
        assert "errors_15min" not in status["docs"]
        assert status["shop-db"]["deploy"] == "unavailable"
        assert "may not read key-value" in status["key-value"]["problem"]
        assert talk.progress[-1][:2] == (5, 5)


async def test_a_few_services_are_asked_at_a_time(render: RenderEmulator) -> None:
    for number in range(40):
        render.world.service(f"s{number}")
    async with at(render) as talk:
        render.wait_for(6, r"/services/srv-\d+")
        assert len(await talk.status()) == 40
    assert render.most_at_once <= 16
    assert API_KEY not in str(render.asked)
