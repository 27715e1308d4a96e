"""The published site, served over loopback and opened from disk, in the system's Chromium."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def site() -> Path:
    """The folder of the site: the one in REGIMES_SITE as it is, else one of the quick presets."""
    if "REGIMES_SITE" in os.environ:
        folder = ROOT / os.environ["REGIMES_SITE"]
    else:
        build = [
            sys.executable,
            "-c",
            "from regimes.press.cli import main; main()",
            "build",
            "--preset",
            "quick",
        ]
        done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"the site can't be built:\n{done.stdout}\n{done.stderr}"
        folder = ROOT / "_build" / "presets" / "quick" / "html"
    assert (folder / "index.html").exists(), f"there is no site in {folder}"
    return folder.resolve()


class Quiet(SimpleHTTPRequestHandler):
    """Serves without a line on the terminal for each request."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="session")
def http(site: Path) -> Iterator[str]:
    """The site's address on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests."""
    names = (os.environ.get("CHROMIUM", ""), *BROWSERS)
    found = next((path for path in map(shutil.which, names) if path), None)
    if found is None:
        pytest.fail(
            "No Chromium or Chrome was found. Debian, Ubuntu: apt-get install chromium. "
            "Elsewhere install one, or name it: CHROMIUM=/path/to/chrome",
            pytrace=False,
        )
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        yield chromium
        chromium.close()
