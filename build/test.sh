#!/bin/bash
# test.sh: run the tests part by part, print which were left out or skipped and why, count
# the tests, and list the slowest. build/parts has the table of the parts, and decides
# which parts a run takes: SEED chooses among the parts that not every run takes, TEST_ALL
# takes all parts that have not passed at this commit, PART=NAME takes one part. A part
# fails if one of its tests in build/tests.txt has no result. With CI=true, a skipped test
# fails the run. A run with MINUTES=n leaves out the parts that would end later, on this
# machine, except those that each run takes.
set -euo pipefail
cd "$(dirname "$0")/.."
log=bin/test.log
mkdir -p bin/plan bin/logs
: >"$log"
failed=0
export SEED=${SEED:-1} TEST_ALL=${TEST_ALL:-} PART=${PART:-}
minutes=${MINUTES:-} # empty: any time
limit=${TEST_ALL:+60m} # of one package's tests
limit=${limit:-30m}
if [ "${CI:-}" = true ]; then
	export REQUIRE_NETNS=1 REQUIRE_API=1 REQUIRE_LAB=1
fi
export KUBEBUILDER_ASSETS=$PWD/bin/kubernetes
# An API server starts in 3 to 6 s. On a busy machine it took more than the default limit
# of 20 s, five times in a row.
export KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=2m KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT=2m

# On a full disk, etcd does not start, and dozens of tests fail for reasons that don't name
# the disk. A run has written up to 13 GB into the build cache.
for folder in "$(go env GOCACHE)" "${TMPDIR:-/tmp}" .; do
	mkdir -p "$folder" # of a new machine's build cache
	free=$(df --output=avail -m "$folder" | tail -n 1)
	if ((free < 4096)); then
		echo "the disk of $folder has $((free)) MB left; the tests need at least 4096: delete something, such as old builds with go clean -cache" >&2
		exit 1
	fi
done

go build -o bin/parts ./build/parts
bin/parts plan bin/plan >bin/plan.tsv
if [ -n "$TEST_ALL" ]; then
	echo "all of every test, at random by SEED=$SEED"
else
	echo "parts, and cases of exhaustive tests, are picked by SEED=$SEED: three in a row run all parts; make test-all runs all cases"
fi
awk -F '\t' '{printf "  %-5s %-14s %s\n", $1 == "run" ? "run" : "left", $2, $5}' bin/plan.tsv
names=() titles=() programs=() expected=() always=()
while IFS=$'\t' read -r word name targets title _ seconds each; do
	[ "$word" = run ] || continue
	names+=("$name") titles+=("$title") programs+=("$targets") expected+=("$seconds") always+=("$each")
done <bin/plan.tsv
if [ "${CI:-}" = true ] && ((EUID != 0)) && grep -q "this machine can't: not root" bin/plan.tsv; then
	echo "in CI nothing may be left out for want of root" >&2
	exit 1
fi
if ((${#names[@]} == 0)); then
	echo "nothing is left to run: all parts have passed at this commit"
	exit 0
fi

# Prints the results of packages, failures and skipped tests. The log has the rest.
show() { tee -a "$part_log" | build/testfilter.awk; }

# run ARGUMENTS...: go test for each package of this part. `make lint` already vets them.
run() {
	local folder arguments n=0 cover
	while IFS=$'\t' read -r folder arguments <&3; do
		cover=()
		if [ -n "$TEST_ALL" ] && [ "$folder" = . ]; then
			n=$((n + 1))
			cover=(-coverpkg=./... "-coverprofile=$PWD/bin/logs/$part.$n.cover")
			export GOCOVERDIR=$PWD/bin/logs/$part.$n.programs # of programs that tests build and start
			rm -rf "$GOCOVERDIR" && mkdir "$GOCOVERDIR"
		fi
		# shellcheck disable=SC2086 # arguments are words without spaces
		if ! (set -f && cd "$folder" && go test -v -vet=off "$@" "${cover[@]}" $arguments) 2>&1 | show; then
			failed=1
		fi
		if [ -n "${GOCOVERDIR:-}" ] && [ -n "$(ls -A "$GOCOVERDIR")" ]; then
			go tool covdata textfmt -i "$GOCOVERDIR" -o "bin/logs/$part.1$n.cover"
		fi
		unset GOCOVERDIR
	done 3<"bin/plan/$part"
}

# Three packages, and three tests of each, run at the same time, because they wait half of
# their time.
part_unit() { run -timeout "$limit" -p 3 -parallel 3; }
# Sixty API servers start, ten at a time. A seventh of their CPU time is garbage
# collection. If each of three packages ran four tests at a time, each test would wait
# longer.
part_api() { GOGC=400 run -timeout "$limit" -p 2 -parallel 3; }
part_minor() { KUBEBUILDER_ASSETS=$PWD/bin/kubernetes-$1 part_api; }

# The virtual machine runs at the same time as the part before it, which mostly waits. At
# the same time as API servers, both took twice as long, and requests timed out. The
# machine is a separate process group, which ends with this script.
start_vm() {
	set -m
	build/vm.sh >bin/vm.log 2>&1 &
	vm=$!
	set +m
	trap 'kill -- "-$vm" 2>/dev/null || true' EXIT
}

part_vm() {
	[ -n "${vm:-}" ] || start_vm
	wait "$vm" || failed=1
	trap - EXIT
	show <bin/vm.log
	grep -a '^vm: [0-9]* tests passed' bin/vm.log || true
}

part_old_vm() {
	build/vm.sh bullseye 2>&1 | show || failed=1
	grep -a '^vm: [0-9]* tests passed' "$part_log" || true
}

part_modules() {
	# The image is also for 32 bits, and one dependency does not support them.
	if ! GOARCH=arm GOARM=7 build/gobuild.sh . bin/arm/linux ./gateway/linux "-s -w" 2>&1 | tee -a "$part_log"; then
		failed=1
	fi
	run -timeout 10m
}

lab_down() { bin/lab down >>"$log" 2>&1 || true; }

# Tests in the lab of two clusters, in an order that the seed chooses. Each test begins
# with a fresh lab, and the lab is reset after it. The lab stays for the next part.
part_in_lab() {
	export REQUIRE_LAB=1 in_lab=1
	trap lab_down EXIT
	if bin/lab fresh --nodes 2 --cni milan=ptp --load bin/images/liqo-gateway.tar 2>&1 | tee -a "$part_log"; then
		run -timeout "$limit" -count=1 "-shuffle=$SEED"
	else
		echo "the lab did not come up; see $part_log" >&2
		failed=1
	fi
}

# Tests that need a lab of another shape. They make it themselves.
part_own_lab() {
	export REQUIRE_LAB=1 in_lab=1
	trap lab_down EXIT
	run -timeout "$limit" -count=1
}

clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# Builds the programs that parts use, in at most SECONDS; 0 or nothing is any time. Make
# builds those that are missing or old.
built=0
builds() {
	local limit=${1:-0} began=$SECONDS code=0
	shift
	# shellcheck disable=SC2046
	timeout "$limit" make --no-print-directory build $(printf '%s\n' $* | sort -u) || code=$?
	built=$((built + SECONDS - began))
	((code == 0 || limit > 0 && code == 124)) || exit "$code" # 124: out of time
}

# The end of a part that takes SECONDS according to the table, in seconds of this run. The
# parts before it show how much slower this machine is.
took=0 known=0
ends() { echo $((SECONDS + (known > 0 ? $1 * took / known : $1))); }

# True if part i would end too late. It tells so.
too_late() {
	local i=$1 end
	[ -n "$minutes" ] && [ "${always[i]}" = false ] || return 1
	end=$(ends "${expected[i]}")
	((end > minutes * 60)) || return 1
	late+=("${names[i]}")
	echo "== part $((i + 1)) of ${#names[@]}, ${names[i]}, is left for want of time: it would end after $(clock "$end"), and the run may take $minutes minutes" | tee -a "$log"
}

# Programs of the other parts are built when these begin, because there may be no time for them.
first=()
for i in "${!names[@]}"; do
	[ "${always[i]}" = false ] || first+=("${programs[i]}")
done
builds 0 "${first[*]}"

commit=$(git rev-parse HEAD 2>/dev/null || true)
[ -z "$(git status --porcelain 2>/dev/null)" ] || commit= # not of a commit alone
times=() counts=() late=()
for i in "${!names[@]}"; do
	part=${names[i]}
	! too_late "$i" || continue
	if [ "${always[i]}" = false ]; then
		builds "${minutes:+$((minutes * 60 - SECONDS))}" "${programs[i]}"
		! too_late "$i" || continue
	fi
	part_log=bin/logs/$part.log
	: >"$part_log"
	rm -f "bin/logs/$part".*.cover
	echo "== part $((i + 1)) of ${#names[@]}, $part, after $(clock $SECONDS): ${titles[i]}" | tee -a "$log"
	began=$SECONDS before=$failed
	failed=0
	if [ "$part" = modules ] && [[ " ${names[*]} " == *" vm "* ]]; then
		start_vm
	fi
	case $part in
	unit | vm | modules) "part_$part" ;;
	vm-5.10) part_old_vm ;;
	api*)
		[ -z "${in_lab:-}" ] || lab_down # its clusters would take a third of the CPU time
		if [ "$part" = api ]; then part_api; else part_minor "${part#api-}"; fi
		;;
	two-clusters | lending | commands | services | faults | liqoctl) part_in_lab ;;
	*) part_own_lab ;;
	esac
	count=$(bin/parts ran "$part" "$part_log") || failed=1
	echo "$count"
	cat "$part_log" >>"$log"
	times+=($((SECONDS - began))) counts+=("$count")
	took=$((took + SECONDS - began)) known=$((known + expected[i]))
	if ((failed == 0)) && [ -n "$TEST_ALL" ] && [ -n "$commit" ]; then
		mkdir -p "bin/passed/$commit" && touch "bin/passed/$commit/$part"
	fi
	((failed == 0)) || echo "part $part failed; its log is $part_log" >&2
	failed=$((failed | before))
done
[ -z "${in_lab:-}" ] || lab_down # a run without labs leaves alone what is up

if [ -n "$TEST_ALL" ]; then
	echo "== coverage of each package by each part's tests, in % of statements; of labs, the admin's program alone"
	build/coverage.awk bin/logs/*.cover
fi
echo "== time of each part"
printf '%8s  %s\n' "$(clock "$built")" "programs that were not built yet"
for i in "${!times[@]}"; do
	printf '%8s  %s\n' "$(clock "${times[i]}")" "${counts[i]}"
done
printf '%8s  %s\n' "$(clock $SECONDS)" "in all: $(printf '%s\n' "${counts[@]}" | awk '{t += $2; c += $4} END {print t " tests, " c " cases"}')"
echo "== the ten slowest tests"
build/slowest.awk "$log" | sort -rn | awk 'NR <= 10' # not head: sort would die of a broken pipe

skipped=$(grep -c -- '--- SKIP' "$log" || true)
left=$(grep -c '^left' bin/plan.tsv || true)
echo "parts left out: $left, of which this machine can't run: $(grep -c "this machine can't" bin/plan.tsv || true)"
((${#late[@]} == 0)) || echo "parts left for want of time: ${#late[@]}: ${late[*]}; each runs with make test PART=NAME"
echo "skipped tests: $skipped"
if ((skipped > 0)) && [ "${CI:-}" = true ]; then
	echo "in CI nothing may be skipped" >&2
	failed=1
fi
exit "$failed"
