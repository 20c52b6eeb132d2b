"""Chromium for tests of pages; the requests and errors of each page are checked."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def program() -> str | None:
    path = os.environ.get("NINJA_CHROMIUM")
    return path or next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start Chromium with Playwright; the tests are skipped if it is missing, and fail in CI."""
    path, reason = program(), None
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        reason = "the Python package playwright is not installed: pip install playwright"
    if path is None:
        reason = "Chromium is not installed: apt-get install chromium, or set NINJA_CHROMIUM to its path"
    if reason is not None:
        if os.environ.get("CI"):
            pytest.fail(f"this is CI, but {reason}")
        pytest.skip(reason)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield chromium
        chromium.close()


class PageMonitor:
    """An open page and its forbidden requests and errors."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.requests: list[str] = []
        self.errors: list[str] = []
        self._handlers = {
            "request": lambda request: self.requests.append(request.url),
            "pageerror": lambda error: self.errors.append(str(error)),
            "dialog": lambda dialog: (self.errors.append(f"dialog: {dialog.message}"), dialog.dismiss()),
            "console": lambda message: (
                self.errors.append(message.text) if message.type in ("error", "warning") else None
            ),
        }
        for event, handler in self._handlers.items():
            page.on(event, handler)

    def stop(self) -> None:
        for event, handler in self._handlers.items():
            self.page.remove_listener(event, handler)


@contextmanager
def open_page(browser: Any, path: Path, colours: str = "light", size: tuple[int, int] = (1280, 800)) -> Iterator[Any]:
    """Open a page file; check at the end that it requested no other file and reported no error.

    The pages of a browser are opened in one tab, as the process of a new tab takes a second to compile the scripts. A
    failed check closes the tab.
    """
    context = browser.contexts[0] if browser.contexts else browser.new_context()
    try:
        page = context.pages[0] if context.pages else context.new_page()
        page.emulate_media(color_scheme=colours)
        page.set_viewport_size({"width": size[0], "height": size[1]})
        page.mouse.move(0, 0)
        monitor = PageMonitor(page)
        page.goto(path.as_uri())
        yield page
        page.goto("about:blank")
        assert {url.partition("#")[0] for url in monitor.requests} == {path.as_uri()}
        assert not monitor.errors, "\n".join(monitor.errors)
        monitor.stop()
    except BaseException:
        context.close()
        raise
