"""Pages: what is read of them, and what those that try to do harm are able to do."""

from collections.abc import Collection
from typing import Any

import pytest
from support.gateway import CHECKER
from support.web_site import WebSite

from antiphon.core.checks.work import CheckOutcome, CheckWork
from antiphon.tools.addresses import AddressPolicy
from antiphon.tools.web_search.pages import Page, PageFailed, PageReader

# The only address that is not public and may be opened: where the site is.
HERE = AddressPolicy("public", ["127.0.0.1"])


async def run_check(work: CheckWork, owner: str) -> CheckOutcome:
    return await CHECKER.run(work, owner)


async def opened(url: str, domains: Collection[str] = (), policy: AddressPolicy = HERE, **options: Any) -> Page:
    reader = PageReader(run_check, policy, **{"timeout": 60.0, "most_bytes": 1024 * 1024, **options})
    try:
        return await reader.read(url, domains, "")
    finally:
        await reader.close()


async def complaint(url: str, **options: Any) -> str:
    with pytest.raises(PageFailed) as failed:
        await opened(url, **options)
    return str(failed.value)


# ---- what is read ----------------------------------------------------------------------------------------------------


async def test_a_page_is_its_text_without_what_surrounds_it(site: WebSite) -> None:
    page = await opened(f"{site.url}/article")
    assert (page.url, page.title) == (f"{site.url}/article", "About Rome")
    assert "Paragraph 3 says at some length" in page.text
    assert "The Tiber flows through it." in page.text
    for hidden in ("Menu entry", "never shown", "[3]", "<p>"):
        assert hidden not in page.text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("latin1", "Der Fluß heißt Tiber."),
        ("named-charset", "Через Рим течёт Тибр."),
        ("unknown-charset", "The Tiber flows through it."),
        ("untyped", "The Tiber flows through it."),
        ("data.json", '{"capital": "Rome"}'),
        ("paper.pdf", "Rome on paper"),
    ],
)
async def test_letters_and_types_that_servers_get_wrong_are_read_all_the_same(name: str, words: str, site: WebSite) -> None:
    assert words in (await opened(f"{site.url}/{name}")).text


async def test_a_page_that_moved_is_followed_and_has_its_new_address(site: WebSite) -> None:
    assert (await opened(f"{site.url}/moved")).url == f"{site.url}/article"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("no-text", "the page has no text. It may be made by a script"),
        ("image.png", "it is image/png, which has no text"),
        ("scan.pdf", "the PDF has no text, only images"),
        ("missing", "its server answered with status 404"),
        ("round", "it redirects more than 5 times"),
    ],
)
async def test_what_cannot_be_read_is_said(name: str, problem: str, site: WebSite) -> None:
    assert await complaint(f"{site.url}/{name}") == problem


@pytest.mark.parametrize("name", ["article", "data.json", "paper.pdf"])
async def test_work_that_does_not_end_is_said(name: str, site: WebSite) -> None:
    """No page is read on the event loop, whatever it is: some codecs take minutes for a megabyte."""

    async def too_slow(work: CheckWork, owner: str) -> CheckOutcome:
        return CheckOutcome(unfinished=True)

    reader = PageReader(too_slow, HERE, timeout=60, most_bytes=100_000)
    with pytest.raises(PageFailed, match="reading it takes too long"):
        await reader.read(f"{site.url}/{name}", (), "")
    await reader.close()


# ---- what pages try --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["huge", "bomb"])
async def test_a_huge_page_is_left_where_it_is(name: str, site: WebSite) -> None:
    assert await complaint(f"{site.url}/{name}") == "it has more than 1048576 bytes"
    if name == "huge":
        await site.left.wait()


async def test_a_page_that_does_not_end_is_left(site: WebSite) -> None:
    assert await complaint(f"{site.url}/slow", timeout=0.3) == "it did not come within 0.3 s"
    await site.left.wait()


PRIVATE = [
    "http://169.254.169.254/latest/meta-data/",
    "http://10.0.0.1/",
    "http://192.168.1.1/",
    "http://[::1]/",
    "http://[fe80::1]/",
    "http://[::ffff:10.0.0.1]/",
    "http://127.0.0.2/",
    "http://0.0.0.0/",
    "http://localhost/",
    "http://2852039166/",
    "http://0x7f.0.0.2/",
]


@pytest.mark.parametrize("url", PRIVATE)
async def test_addresses_that_are_not_public_are_refused_also_after_a_redirect(url: str, site: WebSite) -> None:
    for given in (url, f"{site.url}/to?url={url}"):
        assert "connect" in await complaint(given)
    assert site.opened == ["to"]


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "gopher://x/", "javascript:alert(1)", "//", "http://", "about:blank", "x"]
)
async def test_what_is_no_web_page_is_not_opened(url: str) -> None:
    assert "http" in await complaint(url)


async def test_credentials_in_a_url_are_not_sent(site: WebSite) -> None:
    said = await complaint(site.url.replace("//", "//user:s3cret@") + "/article")
    assert "password" in said
    assert "s3cret" not in said
    assert site.opened == []


async def test_pages_of_other_domains_are_not_opened_nor_redirected_to(site: WebSite) -> None:
    assert (await opened(f"{site.url}/article", {"127.0.0.1"})).title == "About Rome"
    said = await complaint(f"{site.url}/article", domains={"example.com"})
    assert said == "127.0.0.1 is not one of the domains that this search is limited to"
    said = await complaint(f"{site.url}/to?url=https://example.org/", domains={"127.0.0.1"})
    assert said == "example.org is not one of the domains that this search is limited to"


async def test_cookies_are_not_kept(site: WebSite) -> None:
    reader = PageReader(run_check, AddressPolicy("public", ["localhost"]), timeout=60, most_bytes=1024 * 1024)
    url = site.url.replace("127.0.0.1", "localhost") + "/cookie"
    texts = [(await reader.read(url, (), "")).text for _ in range(2)]
    await reader.close()
    assert texts == ["no cookie"] * 2


# ---- robots.txt ------------------------------------------------------------------------------------------------------


async def test_robots_txt_counts_only_where_it_is_asked_for(site: WebSite) -> None:
    site.robots = 200, "User-agent: *\nDisallow: /article\n"
    assert (await opened(f"{site.url}/article")).title == "About Rome"
    assert await complaint(f"{site.url}/article", robots=True) == "the robots.txt of its site forbids it"
    assert await complaint(f"{site.url}/moved", robots=True) == "the robots.txt of its site forbids it"
    assert (await opened(f"{site.url}/data.json", robots=True)).text == '{"capital": "Rome"}'


async def test_without_a_robots_txt_everything_may_be_opened_and_with_a_broken_one_nothing(site: WebSite) -> None:
    assert (await opened(f"{site.url}/data.json", robots=True)).text
    site.robots = 503, ""
    assert await complaint(f"{site.url}/data.json", robots=True) == "the robots.txt of its site forbids it"


async def test_a_robots_txt_that_is_too_long_counts_as_if_it_were_not_there(site: WebSite) -> None:
    site.robots = 200, "User-agent: *\nDisallow: /\n" + "# long\n" * 100_000
    assert (await opened(f"{site.url}/data.json", robots=True)).text == '{"capital": "Rome"}'
