#!/bin/bash
# demo.sh: connect two clusters with the same addresses, and show the connection.
set -euo pipefail
say() { printf '\n== %s\n' "$*"; }

# the peer's view of a pod's address: the remapped prefix (a /16 in the lab), and the host
# part of the pod's own address
seen_from() { # CLUSTER PEER: where CLUSTER's pods find PEER's pod "web"
	local prefix ip
	prefix=$(bin/lab kubectl "$1" get configuration -n "liqo-tenant-$2" "$2" -o 'jsonpath={.status.remote.cidr.pod[0]}')
	ip=$(bin/lab kubectl "$2" get pod web -o 'jsonpath={.status.podIP}')
	echo "$(cut -d. -f1-2 <<<"$prefix").$(cut -d. -f3-4 <<<"$ip")"
}

say "1/5 two Kubernetes clusters with the same pod and service addresses"
bin/lab up
bin/lab load bin/images/liqo-gateway.tar
kubeconfig=$(bin/lab kubeconfig)
both=(--kubeconfig "$kubeconfig" --context lab-rome --remote-kubeconfig "$kubeconfig" --remote-context lab-milan)

say "2/5 operator and fabric on both"
for cluster in rome milan; do
	bin/liqo-tui install --kubeconfig "$kubeconfig" --context "lab-$cluster" --cluster-id "$cluster" \
		--pod-cidr 10.244.0.0/16 --image "${IMAGE:-lab.local/liqo-gateway:dev}" --yes
done

say "3/5 connect them"
bin/liqo-tui network connect "${both[@]}" --server-service-type NodePort --yes

say "4/5 a pod in each"
for cluster in rome milan; do
	bin/lab kubectl "$cluster" apply -f testdata/demo/web.yaml
done
for cluster in rome milan; do
	bin/lab kubectl "$cluster" wait --for=condition=Ready pod/web --timeout=60s
done

say "5/5 HTTP from pod to pod, both ways"
check() { # CLUSTER PEER
	local address
	address=$(seen_from "$1" "$2")
	echo "$1 -> $2: http://$address:8080/ from pod web of $1"
	bin/lab kubectl "$1" exec web -- /pod get --timeout 10s "http://$address:8080/"
}
check rome milan
check milan rome

if [ -t 0 ] && [ -t 1 ]; then
	bin/liqo-tui "${both[@]}"
else
	for cluster in rome milan; do
		say "status of $cluster"
		bin/liqo-tui info --kubeconfig "$kubeconfig" --context "lab-$cluster"
		bin/lab kubectl "$cluster" get connections,configurations,gatewayservers,gatewayclients,publickeies -A
	done
fi

cat <<END

The clusters stay up. To look further:
  bin/liqo-tui --kubeconfig $kubeconfig --context lab-rome --remote-kubeconfig $kubeconfig --remote-context lab-milan
  bin/lab kubectl rome get pods -A
  bin/lab exec milan -- nft list table ip liqo-tui
To undo the connection:
  bin/liqo-tui network reset ${both[*]}
To clean up:
  make lab-down
END
