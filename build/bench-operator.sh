#!/bin/bash
# bench-operator.sh: what the operator costs while nothing happens, with 1 and
# with 200 peers, what a node that joins 1,000 others costs it, and how fast 200
# peers are remapped, against a real API server.
set -euo pipefail
package=$(go run ./build/parts where TestTwoHundredPeersAtOnce)
export KUBEBUILDER_ASSETS=$PWD/bin/kubernetes REQUIRE_API=1
echo "machine: $(nproc) cores, $(awk -F': ' '/model name/ {print $2; exit}' /proc/cpuinfo), Linux $(uname -r)"
go test -run '^$' -bench 'Idle|NodeJoins' -benchtime 1x -timeout 10m "$package" | grep -e Benchmark -e FAIL
go test -count "${ROUNDS:-3}" -v -run TestTwoHundredPeersAtOnce "$package" | grep -e remapped -e FAIL
