#!/bin/bash
# screenshots.sh [FOLDER]: the README's pictures, taken from the real program in
# a lab of its own, of three clusters: the wizard connects rome and milan, and
# the dashboard shows these and what both have with oslo.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-docs/screens}
image=${IMAGE:-lab.local/liqo-gateway:dev}
export LIQO_TUI_LAB_DIR=/run/liqo-tui-screens LIQO_TUI_LAB_NAME=screens LIQO_TUI_LAB_WAN=172.29.0.0/24
# As an admin's own, without what says that it is a lab: contexts are called as
# the clusters are, and the file needs not be named.
KUBECONFIG=$(mktemp)
export KUBECONFIG
mkdir -p "$out"
trap 'rm -f "$KUBECONFIG"; bin/lab down' EXIT
bin/lab up --clusters rome,milan,oslo
bin/lab load bin/images/liqo-gateway.tar
cp "$(bin/lab kubeconfig)" "$KUBECONFIG"
for cluster in rome milan oslo; do
	bin/lab kubectl rome --kubeconfig "$KUBECONFIG" config rename-context "lab-$cluster" "$cluster"
	bin/liqo-tui install --context "$cluster" --cluster-id "$cluster" --pod-cidr 10.244.0.0/16 --image "$image"
	bin/lab kubectl "$cluster" apply -f testdata/demo/web.yaml
done
for peer in rome milan; do
	bin/liqo-tui network connect --context "$peer" --remote-context oslo --server-service-type NodePort --yes
done

take() { # SIZE SCRIPT ANIMATION COMMAND...
	local size=$1 script=$2 animation=$3
	shift 3
	bin/screenshots -size "$size" -script "build/screenshots/$script" -out "$out" -animation "$animation" -- "$@"
}
take 100x30 wizard.keys wizard bin/liqo-tui wizard --image "$image"
(
	sleep 60
	bin/lab cut milan oslo
) &
take 100x30 dashboard.keys "" bin/liqo-tui dashboard
wait
ls -l "$out"
