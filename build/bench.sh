#!/bin/bash
# bench.sh: the time to connect and to remove a connection in the lab. It is compared with
# a bare Deployment on the same clusters, and with the released liqoctl, which works
# against the same operator: ours, or Liqo's of the minor version LIQO. With LIQO, it also
# measures connections with lending. Rounds take turns; the results are median, minimum,
# maximum.
set -euo pipefail
rounds=${ROUNDS:-10}
out=$(mktemp -d)
trap 'rm -rf "$out"; bin/lab down >/dev/null 2>&1 || true' EXIT

timed() { # NAME COMMAND...: append the milliseconds that it took to $out/NAME
	local name=$1 start=$(date +%s%3N)
	shift
	"$@" >"$out/last" 2>&1 || {
		cat "$out/last" >&2
		exit 1
	}
	echo $(($(date +%s%3N) - start)) >>"$out/$name"
}

version() { for _ in {1..10}; do timed "liqo-tui version" bin/liqo-tui version; done; }
version

bin/lab up ${LIQO:+--liqo "rome=$LIQO,milan=$LIQO"}
bin/lab load bin/images/liqo-gateway.tar
kubeconfig=$(bin/lab kubeconfig)
both=(--kubeconfig "$kubeconfig" --context lab-rome --remote-kubeconfig "$kubeconfig" --remote-context lab-milan)
for cluster in rome milan; do
	[ -n "${LIQO:-}" ] || bin/liqo-tui install --kubeconfig "$kubeconfig" --context "lab-$cluster" --cluster-id "$cluster" \
		--pod-cidr 10.244.0.0/16 --image "${IMAGE:-lab.local/liqo-gateway:dev}" --yes >/dev/null 2>&1
done

bare() {
	bin/lab kubectl rome create deployment bare --image lab.local/pod:v1 -- /pod serve
	bin/lab kubectl rome wait --for=condition=Available deployment/bare --timeout=60s
}

gone() { # the namespaces of the peering: Kubernetes takes its time with them. liqoctl keeps its own
	local patience=60s
	[ -z "${LIQO:-}" ] || patience=5s
	for cluster in rome milan; do
		bin/lab kubectl "$cluster" wait --for=delete namespace -l liqo.io/tenant-namespace "--timeout=$patience" >/dev/null 2>&1 || true
	done
}

clean() {
	bin/liqo-tui network reset "${both[@]}" --yes >/dev/null 2>&1
	gone
}

clean
for ((i = 1; i <= rounds; i++)); do
	timed "bare Deployment to Available" bare
	bin/lab kubectl rome delete deployment bare >/dev/null
	bin/lab kubectl rome wait --for=delete pod -l app=bare --timeout=60s >/dev/null 2>&1 || true
	timed "connect to both Connected" bin/liqo-tui network connect "${both[@]}" --server-service-type NodePort --yes
	cp "$out/last" bin/bench-connect.log
	timed "connect again, no changes" bin/liqo-tui network connect "${both[@]}" --server-service-type NodePort --yes
	grep -q '^No changes.$' "$out/last" || {
		echo "the second connect has changed something:" >&2
		cat "$out/last" >&2
		exit 1
	}
	timed "reset to all gone" bin/liqo-tui network reset "${both[@]}" --yes
	gone
	# Without Liqo, liqoctl needs what network init creates, and the tenant namespaces.
	[ -n "${LIQO:-}" ] || bin/liqo-tui network init "${both[@]}" --yes >/dev/null 2>&1
	timed "liqoctl network connect --wait" bin/liqoctl network connect "${both[@]}" --gw-server-service-type NodePort --wait
	clean
	if [ -n "${LIQO:-}" ]; then # lending; the program that begins it ends it
		for who in liqo-tui liqoctl; do # ours accepts liqoctl's flags
			timed "$who peer" "bin/$who" peer "${both[@]}" --gw-server-service-type NodePort --cpu 1 --memory 1Gi --skip-confirm
			timed "$who unpeer" "bin/$who" unpeer "${both[@]}" --skip-confirm
			clean
			# liqoctl keeps the tenant namespaces, and a Renew of Liqo is in one of them.
			# The Renews are deleted, so that each round begins without any.
			for cluster in rome milan; do
				for ns in $(bin/lab kubectl "$cluster" get namespace -l liqo.io/tenant-namespace -o 'jsonpath={.items[*].metadata.name}'); do
					bin/lab kubectl "$cluster" -n "$ns" delete secrets --all >/dev/null
				done
			done
		done
	fi
	version
	echo "round $i of $rounds"
done

echo
echo "machine: $(nproc) cores, $(awk -F': ' '/model name/ {print $2; exit}' /proc/cpuinfo), Linux $(uname -r); milliseconds over $rounds rounds"
echo "liqo-tui is $(stat -c %s bin/liqo-tui) bytes"
printf '%-32s %8s %8s %8s\n' "" median min max
for file in "$out"/*\ *; do
	sort -n "$file" | awk -v name="$(basename "$file")" '{v[NR] = $1}
		END {m = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2; printf "%-32s %8d %8d %8d\n", name, m, v[1], v[NR]}'
done
echo
echo "the last connect, step by step (bin/bench-connect.log):"
cat bin/bench-connect.log
