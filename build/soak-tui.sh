#!/bin/bash
# soak-tui.sh [MINUTES]: leaves the dashboard running against the lab while the
# path between the clusters is cut and restored at random. Every 30 s it compares
# what the screen says with what `info peer -o json` says, and notes the memory.
# It fails if they disagree twice in a row: the two are asked one after the other.
set -euo pipefail
cd "$(dirname "$0")/.."
minutes=${1:-60}
session=liqo-tui-soak-$$
kubeconfig=$(bin/lab kubeconfig)
log=${SOAK_LOG:-soak-tui.log}
tmux new-session -d -s "$session" -x 120 -y 24 \
	"env LANG=C.UTF-8 GODEBUG=gctrace=0 bin/liqo-tui dashboard --kubeconfig $kubeconfig"
changes=
cleanup() {
	[ -z "$changes" ] || kill "$changes" 2>/dev/null || true
	tmux kill-session -t "$session" 2>/dev/null || true
	bin/lab restore >/dev/null 2>&1 || true
}
trap cleanup EXIT
pane=$(tmux list-panes -t "$session" -F '#{pane_pid}')

while sleep $((20 + RANDOM % 60)); do
	bin/lab cut rome milan
	sleep $((5 + RANDOM % 40))
	bin/lab restore
done >/dev/null 2>&1 &
changes=$!

screen() { tmux capture-pane -p -t "$session" | grep -E '(rome +milan|milan +rome)' | head -1; }
# The state by each cluster's own word; the worse one is what the screen has.
states() {
	local c
	for c in rome milan; do
		bin/liqo-tui info peer -o json --kubeconfig "$kubeconfig" --context "lab-$c" | grep -o '"state": *"[^"]*"' | head -1
	done
}
agree() {
	local seen said
	seen=$(screen)
	said=$(states)
	echo "$(date +%T) rss $(awk '/VmRSS/ {print $2}' "/proc/$pane/status") KiB | $seen | $(tr '\n' ' ' <<<"$said")" | tee -a "$log"
	case $seen in
	*down*) grep -qi down <<<"$said" ;;
	*degraded*) grep -qi degraded <<<"$said" ;;
	*stale*) grep -qi stale <<<"$said" ;;
	*connecting*) grep -qi connecting <<<"$said" ;;
	*connected*) ! grep -qvi '"connected"' <<<"$said" ;;
	*) return 1 ;;
	esac
}
sleep 10
end=$((SECONDS + minutes * 60)) samples=0
while ((SECONDS < end)); do
	agree || { sleep 12 && agree; } || {
		echo "the screen and info peer disagree"
		exit 1
	}
	samples=$((samples + 1))
	sleep 30
done
echo "$samples samples agree"
