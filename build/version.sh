#!/bin/bash
# version.sh: print the version of the build: the tag v* of this commit, or else the top
# entry of CHANGELOG.md, which is the next release, and "-dev".
set -euo pipefail
cd "$(dirname "$0")/.."
top=$(sed -n 's/^## \(v[0-9][^ ]*\).*/\1/p' CHANGELOG.md | head -1)
if tag=$(git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null); then
	if [ "$tag" != "$top" ]; then
		echo "the commit is tagged $tag, and the top entry of CHANGELOG.md is of $top" >&2
		exit 1
	fi
	echo "$tag"
else
	echo "$top-dev"
fi
