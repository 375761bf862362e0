#!/usr/bin/env bash
# Runs the tests against Apache brokers and with the Java and Go clients. usage: [APACHE=VERSION] scripts/interop.sh
# APACHE names one more release to judge by, for example 5.5.0. FULL=1 sends more messages.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/require.sh
require_rust
require_cc

scripts/interop-setup.sh 4.4.0 4.9.7 5.3.3 ${APACHE:+"$APACHE"}
cargo test --locked -p rocketmq-tests --tests ${APACHE:+--features release-check}
