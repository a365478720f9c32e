#!/bin/bash
# bench-gateway.sh: the figures of the data plane as one table. Ratios are from
# measurements in network namespaces that take turns (gateway/linux/figures*_test.go).
# Memory and idle CPU are from the processes of two connected clusters in the lab: there,
# the minimum and the maximum are of different processes.
set -euo pipefail
echo "machine: $(nproc) cores, $(awk -F': ' '/model name/ {print $2; exit}' /proc/cpuinfo), Linux $(uname -r), load $(cut -d' ' -f1-3 /proc/loadavg)"
export LC_ALL=C.UTF-8
line() { printf '| %-69s | %s%*s | %9s | %9s | %9s |\n' "$1" "$2" $((8 - ${#2})) "" "${@:3}"; } # bash pads bytes
line figure wanted median least most
line ------ ------ ------ ----- ----
go test -run '^$' -bench Figure -benchtime 1x -timeout 30m "$(go run ./build/parts where BenchmarkFigurePodToPod)" |
	awk '/_test.go:[0-9]+: \|/ {sub(/^[^|]*/, ""); print} /[.]go:[0-9]+: [^|]|FAIL|^panic/ {print; failed = 1} END {exit failed}'

work=$(mktemp -d)
quietly() { # COMMAND...: what it says only if it fails
	"$@" >"$work/said" 2>&1 || {
		cat "$work/said" >&2
		return 1
	}
}
trap 'bin/lab down >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
quietly bin/lab up --nodes 2
quietly bin/lab load bin/images/liqo-gateway.tar
kubeconfig=$(bin/lab kubeconfig)
both=(--kubeconfig "$kubeconfig" --context lab-rome --remote-kubeconfig "$kubeconfig" --remote-context lab-milan)
for cluster in rome milan; do
	quietly bin/liqo-tui install --kubeconfig "$kubeconfig" --context "lab-$cluster" --cluster-id "$cluster" \
		--image "${IMAGE:-lab.local/liqo-gateway:dev}" --yes
	quietly bin/lab kubectl "$cluster" apply -f testdata/demo/web.yaml
done
quietly bin/liqo-tui network connect "${both[@]}" --server-service-type NodePort --yes

processes() { # PROGRAM: process IDs of a subcommand of liqo-gateway, in all nodes of this lab
	local file
	for file in /proc/[0-9]*; do
		if [ "$({ tr '\0' ' ' <"$file/cmdline" | cut -d' ' -f1,2; } 2>/dev/null)" = "/liqo-gateway $1" ] &&
			grep -q ':/lab-' "$file/cgroup"; then
			echo "${file#/proc/}"
		fi
	done
}
spread() { # FORMAT: median, least and most of the numbers that are read
	sort -n | awk -v f="$1 $1 $1" '{v[NR] = $1} END {if (!NR) exit 1; printf f, v[int(NR / 2) + 1], v[1], v[NR]}'
}
memory() { # PROGRAM: MiB of each process
	local pid
	for pid in $(processes "$1"); do awk '$1 == "RssAnon:" {print $2 / 1024}' "/proc/$pid/status"; done
}
ticks() { # PROGRAM: CPU time of each process, in 1/100 s
	local pid
	for pid in $(processes "$1"); do awk '{sub(/.*\) /, ""); print $12 + $13}' "/proc/$pid/stat"; done
}

readonly idle=60
programs=(tunnel fabric operator)
declare -A before
sleep 5 # what connecting began
for program in "${programs[@]}"; do before[$program]=$(ticks "$program"); done
sleep $idle
declare -A cpu=([tunnel]='≤ 0.3' [fabric]='≤ 0.3') rss=([tunnel]='≤ 25' [fabric]='≤ 20')
for program in "${programs[@]}"; do
	line "$program, idle for $idle s, % of a core" "${cpu[$program]:-}" \
		$(paste <(echo "${before[$program]}") <(ticks "$program") | awk -v s=$idle '{print ($2 - $1) / s}' | spread %.2f)
	line "$program, after that, RssAnon in MiB" "${rss[$program]:-}" $(memory "$program" | spread %.1f)
done

# No scheduler places these pods. Nodes don't see them; only programs that watch all pods
# do.
for program in "${programs[@]}"; do before[$program]=$(memory "$program"); done
for cluster in rome milan; do
	for i in {1..1000}; do
		printf -- '---\n{apiVersion: v1, kind: Pod, metadata: {name: many-%d}, spec: {schedulerName: nobody, containers: [{name: c, image: none}]}}\n' "$i"
	done >"$work/pods.yaml"
	quietly bin/lab kubectl "$cluster" create -f "$work/pods.yaml"
done
sleep 5
for program in "${programs[@]}"; do
	line "$program, growth with 1000 pods, MiB" "≤ 2" \
		$(paste <(echo "${before[$program]}") <(memory "$program") | awk '{print $2 - $1}' | spread %.1f)
done

# Each of rome's nodes gets a gigabyte from milan's pod, at the same time.
prefix=$(bin/lab kubectl rome get configuration -n liqo-tenant-milan milan -o 'jsonpath={.status.remote.cidr.pod[0]}')
quietly bin/lab kubectl milan wait --for=condition=Ready pod/web --timeout=60s
ip=$(bin/lab kubectl milan get pod web -o 'jsonpath={.status.podIP}')
url="http://$(cut -d. -f1-2 <<<"$prefix").$(cut -d. -f3-4 <<<"$ip"):8080/?bytes=$((1 << 30))"
for node in rome-1 rome-2; do
	bin/lab exec rome "$node" -- curl --silent --show-error --max-time 300 --output /dev/null \
		--write-out '%{speed_download}\n' "$url" >"$work/speed-$node" &
	downloads+=($!)
done
wait "${downloads[@]}"
line "1 GiB to each of two nodes at the same time, MB/s" "" $(cat "$work"/speed-* | awk '{print $1 / 1e6}' | spread %.1f)
line "tunnel, right after 2 GiB, RssAnon in MiB" "" $(memory tunnel | spread %.1f)
sleep 15 # for a gateway to notice that the burst is over
for program in tunnel fabric; do
	wanted=${rss[$program]}
	[ "$program" = tunnel ] && wanted='≤ 64'
	line "$program, 15 s later, RssAnon in MiB" "$wanted" $(memory "$program" | spread %.1f)
done
