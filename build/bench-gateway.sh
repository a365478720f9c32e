#!/bin/bash
# bench-gateway.sh: the data plane's figures. Ratios come from interleaved pairs
# in network namespaces (gateway/linux/figures_test.go), memory and idle CPU from
# the pods of two connected clusters in the lab.
set -euo pipefail
machine="machine: $(nproc) cores, $(awk -F': ' '/model name/ {print $2; exit}' /proc/cpuinfo), Linux $(uname -r)"
echo "$machine, load $(cut -d' ' -f1-3 /proc/loadavg)"
go test -run '^$' -bench Figure -benchtime 1x -timeout 20m ./gateway/linux | grep -E '^ +[a-z_]+_test.go:|^FAIL|panic' | sed 's/^ *[a-z_]*_test.go:[0-9]*: //'

trap 'bin/lab down >/dev/null 2>&1 || true' EXIT
bin/lab up --nodes 2 2>/dev/null
bin/lab load bin/images/liqo-gateway.tar 2>/dev/null
kubeconfig=$(bin/lab kubeconfig)
both=(--kubeconfig "$kubeconfig" --context lab-rome --remote-kubeconfig "$kubeconfig" --remote-context lab-milan)
for cluster in rome milan; do
	bin/liqo-tui install --kubeconfig "$kubeconfig" --context "lab-$cluster" --cluster-id "$cluster" \
		--image "${IMAGE:-lab.local/liqo-gateway:dev}" >/dev/null 2>&1
	bin/lab kubectl "$cluster" apply -f testdata/demo/web.yaml >/dev/null
done
bin/liqo-tui network connect "${both[@]}" --server-service-type NodePort --yes >/dev/null 2>&1

processes() { # PROGRAM: process IDs of a subcommand of liqo-gateway, in all nodes
	local file
	for file in /proc/[0-9]*/cmdline; do
		if [ "$({ tr '\0' ' ' <"$file" | cut -d' ' -f1,2; } 2>/dev/null)" = "/liqo-gateway $1" ]; then
			file=${file#/proc/}
			echo "${file%/cmdline}"
		fi
	done
}
ticks() { awk '{sub(/.*\) /, ""); print $12 + $13}' "/proc/$1/stat"; }
show() { # WHEN: memory of each process, and CPU since the last time
	local program pid now
	for program in tunnel fabric operator; do
		for pid in $(processes "$program"); do
			now=$(ticks "$pid")
			awk -v what="$program $1" -v cpu="$((now - ${last[$pid]:-$now}))" -v seconds="$((SECONDS - since))" \
				'$1 == "RssAnon:" {printf "%-28s RssAnon %5.1f MiB", what, $2 / 1024}
				END {if (seconds > 0) printf ", CPU %.2f %% of a core", cpu / seconds; print ""}' "/proc/$pid/status"
			last[$pid]=$now
		done
	done
	since=$SECONDS
}
declare -A last
since=$SECONDS
show "when connected" >/dev/null
sleep 60
show "after 60 s idle"

# A gigabyte from milan's pod to each of rome's nodes, at the same time.
prefix=$(bin/lab kubectl rome get configuration -n liqo-tenant-milan milan -o 'jsonpath={.status.remote.cidr.pod[0]}')
bin/lab kubectl milan wait --for=condition=Ready pod/web --timeout=60s >/dev/null
ip=$(bin/lab kubectl milan get pod web -o 'jsonpath={.status.podIP}')
url="http://$(cut -d. -f1-2 <<<"$prefix").$(cut -d. -f3-4 <<<"$ip"):8080/?bytes=$((1 << 30))"
for node in rome-1 rome-2; do
	bin/lab exec rome "$node" -- curl --silent --show-error --max-time 300 --output /dev/null \
		--write-out "$node: 1 GiB through the tunnel at %{speed_download} bytes/s\n" "$url" &
	downloads+=($!)
done
wait "${downloads[@]}"
show "after 2 GiB"
