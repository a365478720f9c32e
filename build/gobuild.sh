#!/bin/bash
# gobuild.sh MODULE-DIR OUTPUT PACKAGE LDFLAGS: go build with a report of the progress of
# a long build.
set -euo pipefail
dir=$1 output=$PWD/$2 package=$3 ldflags=$4
mkdir -p "$(dirname "$output")"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cd "$dir"
# google/nftables v0.3.1-0.20251119083706 does not compile for 32 bits: it prints
# math.MaxUint32 as an int (conn.go:538). Until a version fixes this, a copy with that
# word replaced is used. The path of the copy becomes part of the program, so it is always
# the same.
if [ "${GOARCH:-}" = arm ] && nftables=$(go list -m -f '{{.Dir}}' github.com/google/nftables 2>"$log"); then
	copy=bin/for-32-bits
	rm -rf "$copy"
	mkdir -p "$copy"
	cp go.mod go.sum "$copy"
	cp -r --no-preserve=mode "$nftables" "$copy/nftables"
	sed -i 's/transaction", math.MaxUint32/transaction", uint32(math.MaxUint32)/' "$copy/nftables/conn.go"
	go mod edit -replace "github.com/google/nftables=./$copy/nftables" "$copy/go.mod"
	export GOFLAGS="${GOFLAGS:-} -modfile=$copy/go.mod"
fi
started=$SECONDS
name=$(basename "$output")
fail() {
	cat "$log" >&2
	echo "building $name failed" >&2
	exit 1
}
# The first build downloads modules, and prints many lines.
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
