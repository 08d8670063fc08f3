#!/usr/bin/env python3
"""screenshots.py REPORT REVIEW DIR: takes pictures of the two pages, in light and in dark, and writes them to DIR. Called by scripts/screenshots."""

import sys

from browser import Browser

SIZE = {"width": 1180, "height": 780, "scale": 1.5}
# A person has decided about the second group and the third.
DECIDE = """for (const at of [1, 2]) {
    [...document.querySelectorAll("button")].filter((button) => button.textContent == "Accept")[at].click();
}"""

report, review, folder = sys.argv[1:]
with Browser() as browser:
    for scheme in ("light", "dark"):
        browser.open(report, scheme=scheme, **SIZE)
        browser.shoot(f"{folder}/report-{scheme}.png")
        browser.open(review, scheme=scheme, **SIZE)
        browser.value(DECIDE)
        browser.shoot(f"{folder}/review-{scheme}.png")
    if browser.requests and not all(address.startswith(("file:", "data:", "blob:")) for address in browser.requests):
        sys.exit(f"a page has asked for {browser.requests}")
