"""The documentation site: its pages, its navigation, and its search in a browser."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from chromium import browser

import ninja

__all__ = ["browser"]  # the fixture
ROOT = Path(__file__).resolve().parents[2]
yaml = pytest.importorskip("yaml")
BUILT = os.environ.get("NINJA_SITE")  # folder of an existing build of the site
slow = pytest.mark.skipif(not (BUILT or os.environ.get("NINJA_SLOW")), reason="builds the site; set NINJA_SLOW")


def pages(navigation: list) -> list[str]:
    targets = []
    for entry in navigation:
        for target in entry.values() if isinstance(entry, dict) else [entry]:
            targets += [target] if isinstance(target, str) else pages(target)
    return targets


def test_every_page_is_in_the_navigation_once():
    listed = pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    docs = ROOT / "docs"
    assert sorted(listed) == sorted(["cli.md", *(str(page.relative_to(docs)) for page in docs.glob("**/*.md"))])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if BUILT:
        return ROOT / BUILT
    pytest.importorskip("material")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert process.returncode == 0, process.stdout + process.stderr
    return folder


@slow
def test_the_site_has_every_public_name_and_every_command(site):
    for name in ninja.__all__:
        value = getattr(ninja, name)
        if isinstance(value, type) or callable(value):
            assert f'id="ninja.{name}"' in (site / "api" / "ninja.html").read_text(), name
    for name in ("best_path", "nbest", "prune"):
        assert f'id="ninja.graph.{name}"' in (site / "api" / "ninja.graph.html").read_text()
    from ninja.cli.commands import COMMANDS

    commands = (site / "cli.html").read_text()
    assert 'ark:gunzip -c lat.*.gz|"' in unescape((site / "kaldi.html").read_text())  # no escape before the bar
    assert all(f'id="ninja-{name.replace(" ", "-")}"' in commands for name in COMMANDS)


@pytest.fixture(scope="module")
def site_address(site: Path) -> Iterator[str]:
    """Serve the site on this machine; return its address."""
    handler = partial(QuietHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class QuietHandler(SimpleHTTPRequestHandler):
    """A handler that prints nothing."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def open_site_page(browser: Any, address: str, path: str, width: int = 1440, colours: str = "light") -> Iterator[Any]:
    """Open a page of the site; check at the end that it requested no other site and reported no errors."""
    context = browser.new_context(color_scheme=colours, viewport={"width": width, "height": 800})
    try:
        page = context.new_page()
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: request.url.startswith(address) or faults.append(request.url))
        page.on(
            "response", lambda response: response.status < 400 or faults.append(f"{response.status} {response.url}")
        )
        page.goto(f"{address}/{path}")
        yield page
        assert not [fault for fault in faults if not fault.startswith(("data:", "blob:"))], path
    finally:
        context.close()


@slow
@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [420, 1440])
def test_pages_fit_the_window(browser, site_address, width, colours):
    for name in ("index.html", "cli.html", "kaldi.html", "tutorials/kaldi.html", "api/ninja.graph.html"):
        with open_site_page(browser, site_address, name, width, colours) as page:
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
            colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (max(int(channel) for channel in colour[4:-1].split(",")) < 80) == (colours == "dark")


@slow
def test_links_of_the_site_have_existing_targets(site):
    pages = {path: path.read_text() for path in site.glob("**/*.html")}
    ids = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in pages.items()}
    for path, text in pages.items():
        for link in re.findall(r'<a [^>]*href="([^"]+)"', text):
            target, _, anchor = unescape(link).partition("#")
            if "://" in target or path.name == "404.html":
                continue
            page = (path.parent / target).resolve() if target else path
            assert page.exists(), f"{path.name}: {link}"
            assert not anchor or page not in ids or unquote(anchor) in ids[page], f"{path.name}: {link}"


@slow
@pytest.mark.parametrize(
    ("query", "target"),
    [
        ("lattice-oracle", "kaldi.html"),
        ("determinize_pruned", "api/ninja.graph.html"),
        ("HLRescore", "tutorials/htk.html"),
    ],
)
def test_the_search_finds_pages(browser, site_address, query, target):
    with open_site_page(browser, site_address, "index.html") as page:
        page.locator(".md-search__input").click()
        page.keyboard.type(query)
        link = page.locator(f'.md-search-result__link[href*="{target}"]').first
        link.wait_for(timeout=20000)
        link.click()
        page.wait_for_url(f"**/{target}*")
        assert query in page.locator("article").inner_text()
