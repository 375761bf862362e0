#!/usr/bin/env bash
# The quick part of the tests: format, lints, unit tests, and everything that runs inside one process.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/require.sh
require_rust
require_cc

cargo fmt --all --check
cargo clippy --quiet --locked --workspace --all-targets -- -D warnings
cargo test --quiet --locked --workspace --lib --bins --examples
cargo test --quiet --locked --workspace --exclude rocketmq-tests --test '*'
cargo test --quiet --locked --workspace --doc
