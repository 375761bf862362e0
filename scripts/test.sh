#!/usr/bin/env bash
# Runs every test: the quick part, the quickstart, the fuzz targets for a bounded time, and the interoperability tests.
set -euo pipefail
cd "$(dirname "$0")/.."

step() {
  echo "== $1 ($(date +%T))"
  shift
  "$@"
}

step "format, lints, unit and in-process tests" scripts/check.sh
step "documentation" scripts/docs.sh
step "quickstart" scripts/quickstart.sh
step "the console's page in Chromium" scripts/page.sh
step "fuzzing, 20 s a target" scripts/fuzz.sh 20
step "the mock broker in JUnit 5 and Go tests" scripts/helpers.sh
step "interoperability with Apache brokers and the Java and Go clients" scripts/interop.sh
echo "== all tests passed ($(date +%T))"
