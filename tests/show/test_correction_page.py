"""The page for the review of corrections, tested in a real browser."""

from __future__ import annotations

import json

from chromium import browser, open_page

from ninja.show import correction_page

__all__ = ["browser"]  # the fixture
HOSTILE = '</script><script>alert("x")</script>'


def change(number, **values):
    fields = {
        "utt": f"utt-{number}", "begin": 1, "end": 2, "before": "clendening,", "after": "Clendenin,",
        "phrase": "Clendenin", "class": "@name", "kind": "sound", "distance": 0.05, "probability": 0.8,
        "left": "call", "right": "now",
    }  # fmt: skip
    return fields | values


CHANGES = [change(1), change(2, before=HOSTILE), change(3, kind="spelling", distance=0.0, probability=1.0)]


def test_decisions_by_keyboard_and_buttons_are_saved_as_json(browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(correction_page(CHANGES, 40))
    with open_page(browser, path) as page:
        assert page.locator("header .soft").inner_text() == "3 corrections in 3 of 40 utterances"
        assert page.locator("#changes li").count() == 3
        assert page.locator("#changes li del").nth(1).inner_text() == HOSTILE
        page.keyboard.press("a")
        page.keyboard.press("r")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("u")
        page.locator("#changes li").nth(2).locator("button", has_text="accept").click()
        assert page.locator("#state").inner_text() == "2 accepted, 0 rejected, 1 undecided"
        page.locator("#changes li").nth(1).click()
        page.keyboard.press("r")
        with page.expect_download() as download:
            page.keyboard.press("s")
        assert download.value.suggested_filename == "corrections.json"
        download.value.save_as(tmp_path / "saved.json")
    decisions = json.loads((tmp_path / "saved.json").read_text())
    assert decisions == {"accepted": [CHANGES[0], CHANGES[2]], "rejected": [CHANGES[1]], "undecided": []}


def test_a_page_without_corrections_shows_zero_counts(browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(correction_page([], 1))
    with open_page(browser, path) as page:
        page.keyboard.press("a")
        assert page.locator("header .soft").inner_text() == "0 corrections in 0 of 1 utterance"
