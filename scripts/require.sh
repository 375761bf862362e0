# Sourced by the other scripts: makes sure that a tool is on the PATH and new enough. What is there is used; what is
# missing or too old comes from apt when running as root on Debian; otherwise the script stops and says what to run.

apt_updated=no

# apt_install PACKAGE...: fails when there is no apt, no root, or no such package.
apt_install() {
  command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || return 1
  if [ "$apt_updated" = no ]; then apt-get update -qq >&2 && apt_updated=yes; fi
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

# newer_or_equal HAVE WANT: compares dotted versions.
newer_or_equal() { [ -n "$1" ] && [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

rust_version() { rustc --version 2>/dev/null | sed -n 's/^rustc \([0-9][0-9.]*\).*/\1/p'; }
cc_version() { cc -dumpversion 2>/dev/null; }
java_version() { javac -version 2>&1 | sed -n 's/^javac \([0-9][0-9.]*\).*/\1/p'; }
maven_version() { mvn --version 2>/dev/null | sed -n 's/.*Apache Maven \([0-9][0-9.]*\).*/\1/p'; }
go_version() { go env GOVERSION 2>/dev/null | sed -n 's/^go\([0-9][0-9.]*\).*/\1/p'; }

# require NAME MINIMUM VERSION_FUNCTION HOW PACKAGE...
require() {
  local name=$1 minimum=$2 version=$3 how=$4
  shift 4
  newer_or_equal "$($version)" "$minimum" && return 0
  if apt_install "$@"; then
    hash -r
    newer_or_equal "$($version)" "$minimum" && return 0
  fi
  echo "error: $name $minimum or newer is needed, found '$($version)'. Get it with: $how" >&2
  exit 1
}

require_java() { require "a JDK" 17 java_version "apt-get install openjdk-17-jdk-headless" openjdk-17-jdk-headless; }
require_maven() { require "Maven" 3.6 maven_version "apt-get install maven" maven; }
require_go() {
  require "Go" 1.23 go_version \
    "curl -L https://go.dev/dl/go1.23.12.linux-amd64.tar.gz | tar -C /usr/local -xz, and put /usr/local/go/bin on the PATH" \
    golang-go
}

require_rust() {
  require "Rust" 1.88 rust_version "curl https://sh.rustup.rs -sSf | sh, or rustup update stable" rustc cargo
}
# Some dependencies hold C code.
require_cc() { require "a C compiler" 8 cc_version "apt-get install gcc libc6-dev" gcc libc6-dev; }
