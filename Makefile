# Each target installs what it needs, or says which tool, which version and how to get it.
.PHONY: quickstart test test-full check interop bench docs fuzz

quickstart: ## start a broker, send, consume, and fire a delayed message by turning the clock
	@scripts/quickstart.sh

test: ## every test, interoperability included
	@scripts/test.sh

test-full: ## the same scenarios with larger counts: before a release
	@FULL=1 scripts/test.sh

check: ## format, lints, unit and in-process tests
	@scripts/check.sh

interop: ## against Apache brokers and with the Java and Go clients; APACHE=5.5.0 adds that release
	@scripts/interop.sh

bench: ## every benchmark; one line a goal
	@scripts/bench.sh

fuzz: ## every fuzz target, SECONDS each (20)
	@scripts/fuzz.sh $(or $(SECONDS),20)

docs: ## API documentation, in target/doc
	@scripts/docs.sh
