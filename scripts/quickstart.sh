#!/usr/bin/env bash
# Runs the main job: an embedded broker, a producer, a consumer, and a delayed message fired by turning the clock.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/require.sh
require_rust
require_cc

cargo run --quiet --locked -p rocketmq-tests --bin quickstart
