#!/usr/bin/env bash
# Runs every fuzz target for SECONDS (20), starting from the kept corpus. Fails on a finding, and keeps the input that
# leads to it in rocketmq-wire/fuzz/artifacts. New inputs go to a scratch directory: the kept corpus stays as it is.
set -euo pipefail
cd "$(dirname "$0")/../rocketmq-wire"
seconds=${1:-20}

if ! cargo +nightly --version >/dev/null 2>&1; then
  echo "error: fuzzing needs a nightly Rust compiler. Get it with: rustup toolchain install nightly --profile minimal" >&2
  exit 1
fi
if ! cargo fuzz --version >/dev/null 2>&1; then
  cargo install cargo-fuzz --locked
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cargo +nightly fuzz build
for target in $(cargo +nightly fuzz list); do
  mkdir "$scratch/$target"
  log=$scratch/$target.log
  if cargo +nightly fuzz run "$target" "$scratch/$target" "fuzz/corpus/$target" -- \
    -max_total_time="$seconds" -max_len=65536 -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 >"$log" 2>&1; then
    echo "fuzz $target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs in $seconds s, nothing found"
  else
    cat "$log" >&2
    echo "error: the fuzz target $target found a fault" >&2
    exit 1
  fi
done
