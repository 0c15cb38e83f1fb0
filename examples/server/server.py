#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The server to test: it answers each request with 100 kB."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWER = bytes(100_000)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)


ThreadingHTTPServer(("", 80), Handler).serve_forever()
