#!/bin/bash
# reproduce.sh FOLDER: build the release in FOLDER again, from a copy of the sources in
# another folder, and compare all files.
set -euo pipefail
cd "$(dirname "$0")/.."
first=$(realpath "$1")
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$copy"
VERSION=$(build/version.sh) COMMIT=$(git describe --always --dirty --exclude '*') SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export VERSION COMMIT SOURCE_DATE_EPOCH
"$copy/build/release.sh" "$copy/dist" >"$copy/log" 2>&1 || { cat "$copy/log"; exit 1; }
if ! diff "$first/checksums.txt" "$copy/dist/checksums.txt"; then
	echo "built twice from the same sources, the files above differ" >&2
	exit 1
fi
echo "built twice, in two folders: all files are the same"
