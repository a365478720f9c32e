#!/bin/bash
# bench-tui: what the terminal program costs with many peerings, in memory and
# on a pseudo-terminal. The figures that have bounds fail the run above them.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false"
log=$(mktemp)
trap 'rm -f "$log"' EXIT

echo "machine: $(nproc) cores, $(awk -F': ' '/model name/ {print $2; exit}' /proc/cpuinfo), load $(cut -d' ' -f1 /proc/loadavg)"
echo "== key to frame; one changed row; looking again"
go test ./tui -run '^$' -bench 'KeyToFrame|OneChangedRow|LookingAgain' -benchtime 3s -count 3 | tee "$log" | grep '^Benchmark'
awk '
	function least(name, value) { if (!(name in min) || value < min[name]) min[name] = value }
	{ sub(/-[0-9]+$/, "", $1) }
	/^BenchmarkOneChangedRow/ { least($1, $3) }
	/^BenchmarkKeyToFrame/ { for (i = 3; i < NF; i++) if ($(i + 1) == "p99-ms") least($1, $i) }
	END {
		failed = 0
		for (name in min) if (name ~ /KeyToFrame/) {
			bound = name ~ /=10000\// ? 16 : 8
			printf "%s: p99 %.1f ms of at most %d\n", name, min[name], bound
			if (min[name] > bound) failed = 1
		}
		ratio = min["BenchmarkOneChangedRow/peerings=10000"] / min["BenchmarkOneChangedRow/peerings=100"]
		printf "one changed row at 10,000: %.2f times that at 100, of at most 1.5\n", ratio
		exit failed || ratio > 1.5
	}' "$log" || status=1

echo "== memory of an hour; a process on a terminal"
BENCH_TUI=1 go test ./tui -count=1 -v -run 'AnHour|ProcessOnATerminal' | grep -E '_test.go|^(ok|FAIL|---)' || status=1
exit "${status:-0}"
