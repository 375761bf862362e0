#!/usr/bin/env bash
# Runs the tests of the mock broker's JUnit 5 extension and Go package, with the Java and Go clients.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/require.sh
require_rust
require_cc
require_java
require_maven
require_go

# As scripts/check.sh builds it, so that nothing is built twice.
cargo test --quiet --locked --workspace --exclude rocketmq-tests --test '*' --no-run
target=${CARGO_TARGET_DIR:-$PWD/target}
export ROCKETMQ_MOCK_BROKER=$target/debug/rocketmq-mock-broker
# A registry that does not answer once often answers the second time.
retry() { "$@" || { sleep 5 && "$@"; }; }

(cd mock-broker/go && export GOTOOLCHAIN=local GOFLAGS=-mod=readonly && retry go mod download && go vet ./... && go test -count=1 ./...)
maven() { mvn -B -Dstyle.color=never -ntp -f mock-broker/java/pom.xml "-DbuildDirectory=$target/junit5" "$@"; }
retry maven -q test-compile
maven test
