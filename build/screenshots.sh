#!/bin/bash
# screenshots.sh [FOLDER]: take the README's pictures from the demonstration of the real
# program. They need no cluster, and every screen says DEMO.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-docs/screens}
home=$(mktemp -d) # without the admin's own settings and answers
trap 'rm -rf "$home"' EXIT
export XDG_CONFIG_HOME=$home XDG_STATE_HOME=$home
mkdir -p "$out"
take() { # SIZE SCRIPT ANIMATION
	bin/screenshots -size "$1" -script "build/screenshots/$2" -out "$out" -animation "$3" -- bin/liqo-tui demo
}
take 120x40 dashboard.keys ""
take 100x31 wizard.keys wizard
ls -l "$out"
