#!/bin/bash
# previous.sh COMMIT OUT.tar TAG [PROGRAM]: build the gateway's image of an earlier commit
# as OUT.tar, and its liqo-tui as PROGRAM, for tests with programs of two versions.
set -euo pipefail
commit=$1 out=$PWD/$2 tag=$3 program=${4:+$PWD/$4}
root=$PWD
if ! git rev-parse --verify --quiet "$commit^{commit}" >/dev/null; then
	echo "commit $commit is not in this clone: git fetch --unshallow" >&2
	exit 1
fi
source=$(mktemp -d)
trap 'rm -rf "$source"' EXIT
git archive "$commit" | tar -x -C "$source"
cd "$source"
"$root/build/gobuild.sh" . bin/liqo-gateway ./cmd/liqo-gateway "-s -w"
if [ -n "$program" ]; then
	"$root/build/gobuild.sh" . bin/liqo-tui ./cmd/liqo-tui "-s -w"
	mv bin/liqo-tui "$program"
fi
"$root/bin/image" -o "$out" -tag "$tag" bin/liqo-gateway=/liqo-gateway -- /liqo-gateway
