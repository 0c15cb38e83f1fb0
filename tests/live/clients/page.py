# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Opens a page in headless Chromium and prints what the browser counted, as JSON.

python -m tests.live.clients.page URL
"""

from __future__ import annotations

import json
import sys

from tests.browser import Browser

COUNTED = """
const [page] = performance.getEntriesByType("navigation");
const of = e => [new URL(e.name).pathname, e.transferSize, e.decodedBodySize];
return { seconds: page.loadEventEnd / 1000, files: [page, ...performance.getEntriesByType("resource")].map(of),
         images: [...document.images].filter(i => i.naturalWidth).length,
         scripts: window.ran ?? 0, styles: getComputedStyle(document.body).columnCount };
"""

if len(sys.argv) != 2:
    sys.exit("usage: page.py URL")
browser = Browser()
try:
    browser.call("/url", {"url": sys.argv[1]})  # returns after the load event
    print(json.dumps(browser.run(COUNTED)))
finally:
    browser.close()
