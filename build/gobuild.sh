#!/bin/bash
# gobuild.sh MODULE-DIR OUTPUT PACKAGE LDFLAGS: go build that says how far a long build is.
set -euo pipefail
dir=$1 output=$PWD/$2 package=$3 ldflags=$4
mkdir -p "$(dirname "$output")"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cd "$dir"
started=$SECONDS
total=$(go list -deps "$package" | wc -l)
go build -v -ldflags "$ldflags" -o "$output" "$package" 2>"$log" &
build=$!
name=$(basename "$output")
said=0
while kill -0 "$build" 2>/dev/null; do
	sleep 1
	if ((SECONDS - started >= said + 20)); then
		said=$((SECONDS - started))
		echo "building $name: $(wc -l <"$log") packages compiled of at most $total, ${said}s"
	fi
done
if ! wait "$build"; then
	cat "$log" >&2
	echo "building $name failed" >&2
	exit 1
fi
echo "built $name in $((SECONDS - started))s"
