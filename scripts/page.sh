#!/usr/bin/env bash
# Clicks through the console's page in headless Chromium and keeps pictures of it in target/page.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/require.sh
require_rust
require_cc

chromium_version() { { chromium --version || google-chrome --version; } 2>/dev/null | sed -n 's/^[A-Za-z ]*\([0-9][0-9.]*\).*/\1/p'; }
driver_version() { chromedriver --version 2>/dev/null | sed -n 's/^ChromeDriver \([0-9][0-9.]*\).*/\1/p'; }
node_version() { node --version 2>/dev/null | sed 's/^v//'; }
require "Chromium" 112 chromium_version "apt-get install chromium" chromium
require "its WebDriver" 112 driver_version "apt-get install chromium-driver" chromium-driver
require "Node" 20 node_version "https://nodejs.org, or apt-get install nodejs where that is new enough" nodejs

# As scripts/check.sh builds it, so that nothing is built twice.
cargo test --quiet --locked --workspace --exclude rocketmq-tests --test '*' --no-run
target=${CARGO_TARGET_DIR:-$PWD/target}
node mock-broker/tests/page/click.mjs "$target/debug/rocketmq-mock-broker" "$target/page"
