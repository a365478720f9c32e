#!/bin/bash
# test.sh [e2e|liqo]: run the tests part by part, say what was skipped and why, count
# it, and say what took long. SEED picks the parts of exhaustive tests that run,
# unless TEST_ALL is set. API_SERVERS are the folders of API servers that the tests of
# kube run against; those of the command line need the lab's, with its controllers.
# With CI=true everything has to run: a skipped test fails the run.
set -euo pipefail
only=${1:-all}
log=bin/test.log
mkdir -p bin
: >"$log"
failed=0
export SEED=${SEED:-1} TEST_ALL=${TEST_ALL:-}
limit=${TEST_ALL:+3h} # of one package's tests
limit=${limit:-30m}

if [ "${CI:-}" = true ]; then
	export REQUIRE_NETNS=1 REQUIRE_API=1 REQUIRE_LAB=1
fi
export KUBEBUILDER_ASSETS=$PWD/bin/kubernetes

# Each part is a function, and what it is called for people.
parts=() names=()
part() { parts+=("$1") names+=("$2"); }
if [ "$only" = all ]; then
	part without_lab "unit tests, golden files, kernel tests in network namespaces, the command line against $(bin/kubernetes/kube-apiserver --version)"
	for assets in ${API_SERVERS:-bin/kubernetes}; do
		part "api $assets" "API tests against $("$assets/kube-apiserver" --version)"
	done
	part modules "tests of the lab, the image, the chart, the release and the alert rules"
	part vm "kernel tests again, in a virtual machine with the kernel's WireGuard (it runs since part 2 began)"
fi
if [ "$only" != liqo ]; then
	part two_clusters "end-to-end tests in a lab of two clusters"
	part three_clusters "end-to-end tests in a lab of three clusters"
	part registry "end-to-end tests of nodes that pull our image from a registry"
	part skew "end-to-end tests with operators and gateways of an earlier commit, and of upgrades under traffic"
	part nat "end-to-end tests of clusters behind routers that translate addresses"
fi
if [ "$only" != e2e ]; then
	part liqo "end-to-end tests beside Liqo's own controllers"
fi

# Shows results of packages, failures and skipped tests; the rest is in the log.
show() { tee -a "$log" | build/testfilter.awk; }

run() { # DIRECTORY ARGUMENTS...
	local dir=$1
	shift
	if ! (cd "$dir" && go test -v "$@") 2>&1 | show; then
		failed=1
	fi
}

# Three tests at a time, of those that wait most of their time.
without_lab() {
	run . -timeout "$limit" -parallel 3 -skip '^(TestLab|TestThreeClusters|TestBehindNAT|TestBesideLiqo|TestFromARegistry|TestSkew)' \
		$(go list ./... | grep -v -e '/kube$' -e '/kube/')
}

api() { # FOLDER
	KUBEBUILDER_ASSETS=$PWD/$1 run . -timeout "$limit" -parallel 3 ./kube/...
}

# The virtual machine keeps one processor busy, and what runs beside it mostly
# waits. It is a process group of its own, which ends with this script.
start_vm() {
	set -m
	build/vm.sh >bin/vm.log 2>&1 &
	vm=$!
	set +m
	trap 'kill -- "-$vm" 2>/dev/null || true' EXIT
}

vm() {
	wait "$vm" || failed=1
	trap - EXIT
	show <bin/vm.log
	grep -a '^vm: [0-9]* tests passed' bin/vm.log || true
}

modules() {
	# The image is for 32 bits, too, which one dependency forgets.
	if ! GOARCH=arm GOARM=7 build/gobuild.sh . bin/arm/linux ./gateway/linux "-s -w" 2>&1 | tee -a "$log"; then
		failed=1
	fi
	run build/image -timeout 5m .
	run build/release -timeout 5m .
	run testdata/helm -timeout 5m .
	run testdata/lab -timeout 10m . ./pod
	run build/alerts -timeout 5m .
}

lab_down() { bin/lab down >>"$log" 2>&1 || true; }

two_clusters() {
	if ((EUID != 0)); then
		echo "left out: not root, so there is no lab"
		run . -count=1 -run '^TestLab' ./cmd/liqo-tui
		return
	fi
	export REQUIRE_LAB=1
	trap lab_down EXIT
	lab_down # one that was left behind may be of another shape
	if bin/lab up --nodes 2 --cni milan=ptp 2>&1 | tee -a "$log" && bin/lab load bin/images/liqo-gateway.tar >>"$log" 2>&1; then
		run . -timeout "$limit" -count=1 -run '^TestLab' ./cmd/liqo-tui
	else
		echo "the lab did not come up; see $log" >&2
		failed=1
	fi
	lab_down
}

# Tests that make a lab of their own.
own_lab() { # TEST
	if ((EUID != 0)); then
		echo "left out: not root, so there is no lab"
	else
		export REQUIRE_LAB=1
	fi
	trap lab_down EXIT
	lab_down
	run . -timeout "$limit" -count=1 -run "^$1" ./cmd/liqo-tui
	lab_down
}

three_clusters() { own_lab TestThreeClusters; }

registry() { own_lab TestFromARegistry; }

skew() { own_lab TestSkew; }

nat() { own_lab TestBehindNAT; }

liqo() { own_lab TestBesideLiqo; }

clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

if [ -n "$TEST_ALL" ]; then
	echo "all of every test, at random by SEED=$SEED"
else
	echo "parts of the exhaustive tests are picked by SEED=$SEED (make test-all runs all of them)"
fi
times=()
for i in "${!parts[@]}"; do
	echo "== part $((i + 1)) of ${#parts[@]}, after $(clock $SECONDS): ${names[i]}" | tee -a "$log"
	began=$SECONDS
	if [ "$only" = all ] && ((i == 1)); then
		start_vm
	fi
	${parts[i]}
	times+=($((SECONDS - began)))
done

echo "== time of each part"
for i in "${!parts[@]}"; do
	printf '%8s  %s\n' "$(clock "${times[i]}")" "${names[i]}"
done
printf '%8s  %s\n' "$(clock $SECONDS)" "in all"
echo "== the ten slowest tests"
build/slowest.awk "$log" | sort -rn | awk 'NR <= 10' # not head: sort would die of a broken pipe

skipped=$(grep -c -- '--- SKIP' "$log" || true)
echo "skipped tests: $skipped"
if ((skipped > 0)) && [ "${CI:-}" = true ]; then
	echo "in CI nothing may be skipped" >&2
	failed=1
fi
exit "$failed"
