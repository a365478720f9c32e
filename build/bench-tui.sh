#!/bin/bash
# bench-tui.sh: the costs of the terminal program with many connections, in memory and on
# a pseudo-terminal, ROUNDS=3 times. It fails if the best round is above a bound, because
# other work on the machine only makes rounds slower.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false"
rounds=${ROUNDS:-3}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

echo "machine: $(nproc) cores, $(awk -F': ' '/model name/ {print $2; exit}' /proc/cpuinfo), load $(cut -d' ' -f1 /proc/loadavg), $rounds rounds"
terminal=$(go run ./build/parts where BenchmarkKeyToFrame)
go test "$terminal" -run '^$' -bench 'KeyToFrame|OneChangedRow|LookingAgain' -benchtime 3s -count "$rounds" | tee "$log" | awk '/^(panic|FAIL|---)/'
BENCH_TUI=1 go test -p 1 "$terminal" "$(go run ./build/parts where TestFirstFrame)" -count "$rounds" -v -run 'AnHourOfAThousand|ProcessOnATerminal|FirstFrame' >>"$log" || status=1
awk '/_test.go:[0-9]+: got|^panic/' "$log"
build/bench-tui.awk "$log" || status=1
exit "${status:-0}"
