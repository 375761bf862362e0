#!/usr/bin/env bash
# Builds the API documentation; a broken link or a missing sentence is an error.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/require.sh
require_rust
require_cc

RUSTDOCFLAGS="-D warnings" cargo doc --quiet --locked --no-deps \
  -p rocketmq-wire -p rocketmq-native -p rocketmq-mock-broker
echo "$PWD/target/doc/rocketmq_native/index.html"
