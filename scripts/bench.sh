#!/usr/bin/env bash
# Measures the goals: builds what they need, then prints one line for each goal and case. All of them take some twenty
# minutes on two cores, which should have nothing else to do, and 2 GiB of disk.
# usage: [BENCH_RECORD=1] scripts/bench.sh [P1 P2 ...]      default: all; BENCH_RECORD keeps the counts of instructions
# Exits with 1 when a goal is missed or could not be measured. Details of each measurement go to standard error.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/require.sh
require_rust
require_cc

goals=("$@")
asked() {
  local goal
  [ ${#goals[@]} -gt 0 ] || return 0
  for goal in "$@"; do case " ${goals[*]} " in *" $goal "*) return 0 ;; esac; done
  return 1
}

target=${CARGO_TARGET_DIR:-$PWD/target}

# The tools are named by the goals that need them; a goal without its tool is reported as unmeasured.
if asked P1 P7 P18 S3; then command -v valgrind >/dev/null || apt_install valgrind || true; fi
if asked P2 P8 P15; then
  command -v perf >/dev/null || apt_install linux-perf || command -v strace >/dev/null || apt_install strace || true
fi

cargo build --release --locked -p rocketmq-bench -p rocketmq-mock-broker >&2

if asked P4 && [ ! -x "${BENCH_PEER_RUST:-}" ]; then
  # The peer takes some ten minutes to build, once. Its own folder keeps it when the rest is cleaned.
  peer=${BENCH_PEER_TARGET:-$target/peer-rust}
  CARGO_TARGET_DIR=$peer cargo build --release --locked --manifest-path tests/bench/peer-rust/Cargo.toml >&2 || true
  export BENCH_PEER_RUST=$peer/release/bench-peer-rust
fi

if asked P20 P21 P22 linger S1; then scripts/interop-setup.sh 5.3.3 >&2 || true; fi

exec "$target/release/bench" "${goals[@]}"
