#!/bin/bash
# soak-tui.sh: leave the dashboard running for SOAK=1h in its own lab, which may run at
# the same time as another one.
set -euo pipefail
cd "$(dirname "$0")/.."
export LIQO_TUI_LAB_DIR=/run/liqo-tui-soak LIQO_TUI_LAB_NAME=soak LIQO_TUI_LAB_WAN=172.31.0.0/24
export SOAK_FOLDER=${SOAK_FOLDER:-$PWD/bin/soak-tui}
rm -rf "$SOAK_FOLDER"
mkdir -p "$SOAK_FOLDER"
trap 'bin/lab down' EXIT
bin/lab up
bin/lab load bin/images/liqo-gateway.tar
REQUIRE_LAB=1 go test -tags soak -count=1 -timeout 24h -v -run '^TestDashboardSoak$' "$(go run ./build/parts where TestDashboardSoak)"
