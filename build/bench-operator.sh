#!/bin/bash
# bench-operator.sh: the costs of the operator, against a real API server: while nothing
# happens, with 1 and with 200 peers; for a node that joins 1,000 others; to remap 200
# peers; and for the restart of a provider with 1,000 consumers (CONSUMERS sets another
# number).
set -euo pipefail
package=$(go run ./build/parts where TestTwoHundredPeersAtOnce)
export KUBEBUILDER_ASSETS=$PWD/bin/kubernetes REQUIRE_API=1
echo "machine: $(nproc) cores, $(awk -F': ' '/model name/ {print $2; exit}' /proc/cpuinfo), Linux $(uname -r)"
go test -run '^$' -bench 'Idle|NodeJoins' -benchtime 1x -timeout 10m "$package" | grep -e Benchmark -e FAIL
go test -run '^$' -bench ConsumersRestart -benchtime 1x -timeout 90m "$(go run ./build/parts where TestManyPodsAbroad)" 2>&1 | grep -e Benchmark -e FAIL -e consumers_test.go
go test -count "${ROUNDS:-3}" -v -run TestTwoHundredPeersAtOnce "$package" | grep -e remapped -e FAIL
