#!/bin/sh
# Finds a Chromium for the browser tests, or installs Debian's where that is possible.
set -eu

for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome google-chrome-stable; do
  if [ -n "$name" ] && command -v "$name" >/dev/null 2>&1; then exit 0; fi
done

if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
  echo "Installing Debian's chromium for the browser tests ..."
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null && exit 0
fi

cat >&2 <<'MESSAGE'
The tests of the pages need a Chromium or Chrome browser, and none was found or could be installed.
  Debian, Ubuntu:  sudo apt-get install chromium
  elsewhere:       install Chromium or Chrome, and name it:  make test CHROMIUM=/path/to/chrome
All other tests:   .venv/bin/python -m pytest --ignore=tests/browser
MESSAGE
exit 1
