#!/bin/bash
# check.sh: the tests that need no API server, no lab and no network namespaces. -short
# leaves out tests in namespaces, and most of the long random runs.
set -euo pipefail
mkdir -p bin
log=bin/check.log
go run ./build/parts same
labs=$(awk '$1 !~ /^(unit|api|api-MINOR|modules|vm)$/ {print $3}' build/tests.txt | sort -u | paste -sd '|')
export KUBEBUILDER_ASSETS=
unset CI REQUIRE_NETNS REQUIRE_API REQUIRE_LAB # what is left out here is no failure
go test -v -short -skip "^($labs)\$" ./... 2>&1 | tee "$log" | awk -v skips=silent -f build/testfilter.awk
echo "the tests passed in ${SECONDS}s; make test runs the $(grep -c -- '--- SKIP' "$log" || true) that were left out"
