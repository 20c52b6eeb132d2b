"""The web page of the server, tested in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from chromium import PageMonitor, browser
from fake_lm import FakeLM, symbols
from served import Client, run_server

from ninja.context import Context, Entities
from ninja.rescoring import RescoreOptions
from ninja.serve.scorer import Scorer

__all__ = ["browser"]  # the fixture
pytest.importorskip("starlette", reason="the extra ninja-asr[serve] is not installed")
NBEST = [{"text": "w1 w2", "score": -1.0}, {"text": "w1 <b>w3</b>", "score": -1.1}]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    path = tmp_path_factory.mktemp("lists") / "names.txt"
    path.write_text("w4\n")
    options = RescoreOptions(unk_penalty=0.5, normalizer="none")
    context = Context(Entities.from_dict({}))
    with run_server(
        Scorer(FakeLM(), options, words=symbols(), context=context, lists={"<contacts>": path})
    ) as http_client:
        yield http_client


@contextmanager
def open_server_page(browser: Any, client: Client, width: int) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": width, "height": 800})
    try:
        page = context.new_page()
        monitor = PageMonitor(page)
        page.goto(f"http://127.0.0.1:{client.port}/")
        yield page
        assert {url.split("/")[2] for url in monitor.requests if not url.startswith(("data:", "blob:"))} == {
            f"127.0.0.1:{client.port}"
        }
        # Chromium logs responses with an error status.
        errors = [error for error in monitor.errors if "status of 422" not in error]
        assert not errors, "\n".join(errors)
    finally:
        context.close()


def test_an_n_best_list_is_rescored_edited_and_downloaded_on_a_small_screen(browser: Any, client: Client) -> None:
    expected = client.rescore_json(nbest=NBEST, key="utt", entities=["w2"]).json
    with open_server_page(browser, client, 420) as page:
        assert page.locator("#lists label").inner_text().strip() == "<contacts>"
        page.fill("#source", json.dumps({"key": "utt", "nbest": NBEST}))
        page.fill("#names", "w2\n")
        page.click("#send")
        page.wait_for_selector("#words button")
        words = page.locator("#words button").all_inner_texts()
        assert words == [word["word"] for word in expected["nbest"][0]["words"]]
        changed_words = page.locator("#words button.changed").all_inner_texts()
        assert changed_words == [word for word, old in zip(words, ["w1", "w2"], strict=True) if word != old]
        page.locator("#words button").last.click()
        choices = page.locator("#choices button").all_inner_texts()
        assert choices == [
            f"{choice['word']} {100 * choice['confidence']:.1f}%" for choice in expected["alternatives"][-1]
        ]
        page.locator("#choices button").last.click()
        alternative = expected["alternatives"][-1][-1]["word"]
        assert page.locator("#words button").last.inner_text() == alternative
        assert "changed" in page.locator("#words button").last.get_attribute("class")
        with page.expect_download() as download:
            page.click("#download")
        content = json.loads(Path(download.value.path()).read_text())
        assert download.value.suggested_filename == "utt.json"
        assert content["text"] == f"w1 {alternative}"
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_a_selected_file_is_rescored_and_an_error_is_shown(browser: Any, client: Client, tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    path.write_text(json.dumps({"key": "of-file", "nbest": NBEST}))
    with open_server_page(browser, client, 1280) as page:
        page.set_input_files("#file", path)
        page.click("#send")
        page.wait_for_selector("#words button")
        assert page.locator("#key").inner_text() == "of-file"
        page.fill("#source", "nothing")  # replaces the file
        with page.expect_response("**/v1/rescore") as response:
            page.click("#send")
        page.wait_for_selector("#problem:not([hidden])")
        assert page.locator("#problem").inner_text() == response.value.json()["detail"]
        assert page.locator("#result").is_hidden()


def test_the_content_security_policy_allows_only_the_script_of_the_page(client: Client) -> None:
    answer = client.get("/")
    policy = answer.headers["content-security-policy"]
    assert "script-src 'sha256-" in policy
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]
    assert b"http" not in answer.body.replace(b"http://127", b"")
    assert b"\\u003ccontacts\\u003e" in answer.body
