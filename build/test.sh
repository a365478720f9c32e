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

if [ "${CI:-}" = true ]; then
	export REQUIRE_NETNS=1 REQUIRE_API=1 REQUIRE_LAB=1
fi
export KUBEBUILDER_ASSETS=$PWD/bin/kubernetes

# Parts run in two lanes, beside each other: what computes, and what waits for
# clusters most of its time. Each part is a function.
declare -A names=(
	[modules]="tests of the lab, the image, the chart, the release and the alert rules"
	[vm]="kernel tests again, in a virtual machine with the kernel's WireGuard"
	[two_clusters]="end-to-end tests in a lab of two clusters"
	[three_clusters]="end-to-end tests in a lab of three clusters"
	[nat]="end-to-end tests of clusters behind routers that translate addresses"
	[liqo]="end-to-end tests beside Liqo's own controllers"
)
first=() second=()
case $only in
all)
	names[without_lab]="unit tests, golden files, kernel tests in network namespaces, the command line against $("$KUBEBUILDER_ASSETS/kube-apiserver" --version)"
	first=(without_lab)
	for assets in ${API_SERVERS:-bin/kubernetes}; do
		names["api $assets"]="API tests against $("$assets/kube-apiserver" --version)"
		first+=("api $assets")
	done
	first+=(modules vm nat)
	second=(two_clusters three_clusters liqo)
	;;
e2e)
	first=(three_clusters)
	second=(two_clusters nat)
	;;
liqo) first=(liqo) ;;
*)
	echo "test.sh: no tests called $only" >&2
	exit 2
	;;
esac

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
	run . -timeout 30m -parallel 3 -skip '^(TestLab|TestThreeClusters|TestBehindNAT|TestBesideLiqo)' \
		$(go list ./... | grep -v -e '/kube$' -e '/kube/')
}

api() { # FOLDER
	KUBEBUILDER_ASSETS=$PWD/$1 run . -timeout 10m -parallel 3 ./kube/...
}

vm() {
	if ! build/vm.sh 2>&1 | show; then
		failed=1
	fi
	grep -a '^vm: [0-9]* tests passed' "$log" || true
}

modules() {
	run build/image -timeout 5m .
	run build/release -timeout 5m .
	run testdata/helm -timeout 5m .
	run testdata/lab -timeout 10m . ./pod
	run build/alerts -timeout 5m .
}

lab_down() { bin/lab down >>"$log" 2>&1 || true; }
# What is left when a lane is interrupted.
cleanup() {
	[ -z "$beside" ] || kill -- "-$beside" 2>/dev/null || true
	[ -z "$has_lab" ] || lab_down
}
beside='' has_lab=''
trap cleanup EXIT

two_clusters() {
	if ((EUID != 0)); then
		echo "left out: not root, so there is no lab"
		run . -count=1 -run '^TestLab' ./cmd/liqo-tui
		return
	fi
	export REQUIRE_LAB=1
	has_lab=yes
	lab_down # one that was left behind may be of another shape
	if bin/lab up --nodes 2 --cni milan=ptp 2>&1 | tee -a "$log" && bin/lab load bin/images/liqo-gateway.tar >>"$log" 2>&1; then
		run . -timeout 30m -count=1 -run '^TestLab' ./cmd/liqo-tui
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
	has_lab=yes
	lab_down
	run . -timeout 30m -count=1 -run "^$1" ./cmd/liqo-tui
	lab_down
}

three_clusters() { own_lab TestThreeClusters; }

nat() { own_lab TestBehindNAT; }

liqo() { own_lab TestBesideLiqo; }

clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

if [ -n "$TEST_ALL" ]; then
	echo "all of every test, at random by SEED=$SEED"
else
	echo "parts of the exhaustive tests are picked by SEED=$SEED (make test-all runs all of them)"
fi
lane() { # PART...: one after the other
	local part began
	for part; do
		echo "== after $(clock $SECONDS): ${names[$part]}" | tee -a "$log"
		began=$SECONDS
		$part
		echo "$((SECONDS - began)) ${names[$part]}" >>"$log.times"
	done
	return "$failed"
}

# The second lane has a lab of its own, and a log: tests of both would get mixed.
rm -f "$log".*
second_lane() {
	export LIQO_TUI_LAB_DIR=/run/liqo-tui-lab-2 LIQO_TUI_LAB_NAME=lab2 LIQO_TUI_LAB_WAN=172.28.0.0/24
	log=$log.second
	trap cleanup EXIT
	lane "${second[@]}"
}
if ((${#second[@]})); then
	set -m # a process group of its own, which ends with this script
	second_lane &
	beside=$!
	set +m
fi
lane "${first[@]}" || failed=1
[ -z "$beside" ] || wait "$beside" || failed=1
beside=''
cat "$log".second >>"$log" 2>/dev/null || true

echo "== time of each part, two beside each other"
cat "$log".times "$log".second.times 2>/dev/null | while read -r seconds name; do
	printf '%8s  %s\n' "$(clock "$seconds")" "$name"
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
