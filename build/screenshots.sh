#!/bin/bash
# screenshots: the README's pictures, taken from the real program in the lab.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-docs/screens}
image=${IMAGE:-lab.local/liqo-gateway:dev}
mkdir -p "$out"
bin/lab up
trap 'bin/lab restore >/dev/null 2>&1 || true' EXIT
bin/lab load bin/images/liqo-gateway.tar
kubeconfig=$(bin/lab kubeconfig)
for cluster in rome milan; do
	bin/liqo-tui install --kubeconfig "$kubeconfig" --context "lab-$cluster" --cluster-id "$cluster" \
		--pod-cidr 10.244.0.0/16 --image "$image" >/dev/null
done
bin/liqo-tui network reset --yes --kubeconfig "$kubeconfig" --context lab-rome --remote-kubeconfig "$kubeconfig" --remote-context lab-milan >/dev/null || true

take() { # SIZE SCRIPT ANIMATION COMMAND...
	local size=$1 script=$2 animation=$3
	shift 3
	bin/screenshots -size "$size" -script "build/screenshots/$script" -out "$out" -animation "$animation" -- "$@"
}
take 100x30 wizard.keys wizard bin/liqo-tui wizard --kubeconfig "$kubeconfig" --image "$image"
(
	sleep 85
	bin/lab cut rome milan
) &
take 120x36 dashboard.keys "" bin/liqo-tui dashboard --kubeconfig "$kubeconfig"
wait
ls -l "$out"
