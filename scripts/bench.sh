#!/usr/bin/env bash
# Measures the goals: builds what they need, then prints one line for each goal and case.
# usage: scripts/bench.sh [P1 P2 ...]      default: all
# Exits with 1 when a goal is missed or could not be measured. Details of each measurement go to standard error.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/require.sh

goals=" ${*:-P1 P2 P3 P4 P5 P6 P10 P14 P16 S1 S2 P20 P22} "
asked() { local goal; for goal in "$@"; do case $goals in *" $goal "*) return 0 ;; esac; done; return 1; }

target=${CARGO_TARGET_DIR:-$PWD/target}

# The tools are named by the goals that need them; a goal without its tool is reported as unmeasured.
if asked P1; then command -v valgrind >/dev/null || apt_install valgrind || true; fi
if asked P2; then
  command -v perf >/dev/null || apt_install linux-perf || command -v strace >/dev/null || apt_install strace || true
fi

cargo build --release -p rocketmq-bench -p rocketmq-mock-broker >&2

if asked P4; then
  # The peer takes some ten minutes to build, once. Its own folder keeps it when the rest is cleaned.
  peer=${BENCH_PEER_TARGET:-$target/peer-rust}
  CARGO_TARGET_DIR=$peer cargo build --release --locked --manifest-path tests/bench/peer-rust/Cargo.toml >&2 || true
  export BENCH_PEER_RUST=$peer/release/bench-peer-rust
fi

if asked P20 P22; then scripts/interop-setup.sh 5.3.3 >&2 || true; fi

# shellcheck disable=SC2086
exec "$target/release/bench" $goals
