#!/bin/sh
# Installs Debian's Chromium and its driver for the tests that open a report, unless they are there.
set -eu
if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then
    exit 0
fi
if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
    echo "browser tests will skip: install chromium and chromedriver to run them" >&2
    exit 0
fi
echo "installing chromium for the browser tests" >&2
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver >/dev/null
