#!/bin/bash
# gobuild.sh MODULE-DIR OUTPUT PACKAGE LDFLAGS: go build that says how far a long build is.
set -euo pipefail
dir=$1 output=$PWD/$2 package=$3 ldflags=$4
mkdir -p "$(dirname "$output")"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cd "$dir"
started=$SECONDS
name=$(basename "$output")
fail() {
	cat "$log" >&2
	echo "building $name failed" >&2
	exit 1
}
# Downloads what is missing, which is many lines when nothing is there yet.
total=$(go list -deps "$package" 2>"$log" | wc -l) || fail
if ((SECONDS - started > 5)); then
	echo "building $name: $(grep -c 'go: downloading' "$log" || true) modules downloaded, $((SECONDS - started))s"
fi
go build -v -ldflags "$ldflags" -o "$output" "$package" 2>"$log" &
build=$!
said=$((SECONDS - started))
while kill -0 "$build" 2>/dev/null; do
	sleep 1
	if ((SECONDS - started >= said + 20)); then
		said=$((SECONDS - started))
		echo "building $name: $(wc -l <"$log") packages compiled of at most $total, ${said}s"
	fi
done
wait "$build" || fail
echo "built $name in $((SECONDS - started))s"
