#!/bin/bash
# test.sh [e2e]: run the tests, say what was skipped and why, and count it.
# With CI=true everything has to run: a skipped test fails the run.
set -euo pipefail
only=${1:-all}
log=bin/test.log
mkdir -p bin
: >"$log"
failed=0

if [ "${CI:-}" = true ]; then
	export REQUIRE_NETNS=1 REQUIRE_API=1 REQUIRE_LAB=1
fi
export KUBEBUILDER_ASSETS=$PWD/bin/kubernetes

# Shows results of packages, failures and skipped tests; the rest is in the log.
run() { # DIRECTORY ARGUMENTS...
	local dir=$1
	shift
	if ! (cd "$dir" && go test -v "$@") 2>&1 | tee -a "$log" | build/testfilter.awk; then
		failed=1
	fi
}

if [ "$only" = all ]; then
	echo "== unit tests, golden files, kernel tests in network namespaces, API tests against $(bin/kubernetes/kube-apiserver --version)"
	run . -timeout 30m -skip '^(TestLab|TestThreeClusters)' ./...
	for assets in bin/kubernetes-*; do
		echo "== API tests against $("$assets/kube-apiserver" --version)"
		KUBEBUILDER_ASSETS=$PWD/$assets run . -timeout 10m ./kube/...
	done
	echo "== kernel tests again, in a virtual machine with the kernel's WireGuard"
	if ! build/vm.sh 2>&1 | tee -a "$log" | build/testfilter.awk; then
		failed=1
	fi
	run build/image -timeout 5m .
	echo "== the lab's own tests"
	run testdata/lab -timeout 10m . ./pod
	echo "== the alert rules, as promtool checks them"
	run build/alerts -timeout 5m .
fi

echo "== end-to-end tests in the lab"
if ((EUID == 0)); then
	export REQUIRE_LAB=1
	trap 'bin/lab down >>"$log" 2>&1 || true' EXIT
	bin/lab down >>"$log" 2>&1 || true # one that was left behind may be of another shape
	if bin/lab up --nodes 2 2>&1 | tee -a "$log" && bin/lab load bin/images/liqo-gateway.tar >>"$log" 2>&1; then
		run . -timeout 30m -count=1 -run '^TestLab' ./cmd/liqo-tui
	else
		echo "the lab did not come up; see $log" >&2
		failed=1
	fi
	echo "== end-to-end tests in a lab of three clusters"
	bin/lab down >>"$log" 2>&1 || true
	run . -timeout 30m -count=1 -run '^TestThreeClusters' ./cmd/liqo-tui
else
	echo "left out: not root, so there is no lab"
	run . -count=1 -run '^(TestLab|TestThreeClusters)' ./cmd/liqo-tui
fi

skipped=$(grep -c -- '--- SKIP' "$log" || true)
echo "skipped tests: $skipped"
if ((skipped > 0)) && [ "${CI:-}" = true ]; then
	echo "in CI nothing may be skipped" >&2
	failed=1
fi
exit "$failed"
