#!/usr/bin/env bash
# Fetches the Apache servers and clients and compiles the foreign drivers that the interoperability tests run.
# usage: scripts/interop-setup.sh [VERSION...]      default: 4.4.0 4.9.7 5.3.3
# Everything goes to target/interop, or to $ROCKETMQ_INTEROP_DIR. Running it again does only what is missing or changed.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/require.sh

versions=("$@")
[ ${#versions[@]} -gt 0 ] || versions=(4.4.0 4.9.7 5.3.3)
cache=${ROCKETMQ_INTEROP_DIR:-$PWD/target/interop}
mkdir -p "$cache"
exec 9>"$cache/.lock"
flock 9

require_java
require_go

# retry COMMAND...: a registry that does not answer once often answers the second time.
retry() {
  local attempt
  for attempt in 1 2 3 4; do
    "$@" && return 0
    echo "attempt $attempt failed: $*" >&2
    sleep $((attempt * 3))
  done
  return 1
}

fetch_jars() {
  local version=$1 lib=$cache/$1/lib
  [ -e "$cache/$version/fetched" ] && return 0
  require_maven
  echo "fetching Apache RocketMQ $version" >&2
  rm -rf "$lib"
  retry mvn -q -B -Dstyle.color=never -f tests/interop/apache/pom.xml "-Drocketmq.version=$version" \
    dependency:copy-dependencies "-DoutputDirectory=$lib"
  touch "$cache/$version/fetched"
}

# digest FOLDER: changes with any byte of any file. The tests compute the same and refuse drivers made from other sources.
digest() { find "$1" -type f | LC_ALL=C sort | xargs cat | sha1sum | cut -d ' ' -f 1; }

compile_java() {
  local classes=$cache/$1/classes
  [ "$(cat "$classes/source.sha1" 2>/dev/null)" = "$java_digest" ] && return 0
  rm -rf "$classes"
  mkdir -p "$classes"
  javac -nowarn -encoding UTF-8 --release 17 -cp "$cache/$1/lib/*" -d "$classes" \
    tests/interop/java/interop/*.java 2> >(grep -v '^Note: ' >&2)
  echo "$java_digest" >"$classes/source.sha1"
}

compile_go() {
  [ "$(cat "$cache/go-driver.sha1" 2>/dev/null)" = "$1" ] && return 0
  # GOTOOLCHAIN: a go.mod must never make an old compiler fetch a newer one.
  (cd tests/interop/go && export GOTOOLCHAIN=local GOFLAGS=-mod=readonly &&
    retry go mod download && go build -o "$cache/go-driver" .)
  echo "$1" >"$cache/go-driver.sha1"
}

java_digest=$(digest tests/interop/java)
for version in "${versions[@]}"; do
  fetch_jars "$version"
  compile_java "$version"
done

compile_go "$(digest tests/interop/go)"
