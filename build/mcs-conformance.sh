#!/bin/bash
# mcs-conformance.sh SUITE: run the conformance suite of the Multi-Cluster Services API in a
# lab of two clusters, with different and with the same pod ranges. SUITE is its program:
# `go test -c` in the folder conformance of github.com/kubernetes-sigs/mcs-api. Its images
# can't be pulled into the lab, so images with the same names are packed from Debian's
# packages. The reports are in bin/mcs-conformance.
set -euo pipefail
cd "$(dirname "$0")/.."
suite=$(realpath "${1:?usage: make mcs-conformance SUITE=PROGRAM}")
out=$PWD/bin/mcs-conformance
mkdir -p "$out"

# With the same ranges, a cluster sees other addresses than the exporter does. This is the
# only behaviour that asks for the exporter's.
expected_same="headless service should return the ready endpoint addresses of all the backing pods"

# pack FILE TAG ENTRY BINARY=/PATH [FILE=/PATH]...: an image with a dynamic binary and its libraries
pack() {
	local file=$1 tag=$2 entry=$3 binary=$4 libraries
	shift 4
	libraries=$(LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu:$root/lib/x86_64-linux-gnu ldd "${binary%%=*}" |
		awk '$2 == "=>" {name = $3; sub(".*/", "", name); print $3 "=/lib/x86_64-linux-gnu/" name}')
	# shellcheck disable=SC2086 # paths without spaces
	bin/image -o "$out/$file" -tag "$tag" "$binary" "$@" /lib64/ld-linux-x86-64.so.2=/lib64/ld-linux-x86-64.so.2 $libraries -- "$entry"
}

# applets NAME...: parts of busybox
applets() { printf "$root/bin/busybox=/bin/%s " "$@"; }

root=$(mktemp -d)
trap 'bin/lab down >/dev/null 2>&1 || true; rm -rf "$root"' EXIT
(
	cd "$root"
	apt-get download -qq socat libwrap0 libssl3 libreadline8 libtinfo6 netcat-openbsd libbsd0 libmd0 busybox-static
	for package in *.deb; do dpkg -x "$package" .; done
)
# The shell of busybox prefers its own programs to those in PATH. The suite needs the nc of
# OpenBSD, so dash is the shell beside it.
# shellcheck disable=SC2046
pack socat.tar alpine/socat:1.7.4.4 /bin/sh "$root/usr/bin/socat=/usr/bin/socat" $(applets sh)
# shellcheck disable=SC2046
pack netshoot.tar nicolaka/netshoot:v0.15 /bin/env "$root/bin/nc.openbsd=/usr/bin/nc" /usr/bin/dash=/bin/sh $(applets env sleep nslookup)

failed=0
# try NAME [FLAG...]: run the suite in a lab with these flags
try() {
	local name=$1 config
	shift
	mkdir -p "$out/$name"
	bin/lab down >/dev/null 2>&1 || true
	bin/lab up --nodes 2 "$@" && bin/lab load bin/images/liqo-gateway.tar "$out"/*.tar && bin/lab dns
	config=$(bin/lab kubeconfig)
	for cluster in rome milan; do
		bin/liqo-tui install --yes --services --names --cluster-id $cluster --image lab.local/liqo-gateway:dev --kubeconfig "$config" --context lab-$cluster
	done
	bin/liqo-tui network connect --yes --kubeconfig "$config" --context lab-rome --remote-kubeconfig "$config" --remote-context lab-milan
	(cd "$out/$name" && KUBECONFIG=$config "$suite" -contexts=lab-rome,lab-milan -ginkgo.no-color -test.timeout 30m 2>&1 | tee suite.log) || true
	grep -a '^Ran [0-9]* of' "$out/$name/suite.log" || failed=1
}

try different --pods rome=10.10.0.0/16,milan=10.20.0.0/16
try same
for name in different same; do
	printf '%-10s %s\n' "$name" "$(grep -a 'Passed |' "$out/$name/suite.log")"
done
grep -aq '^SUCCESS! -- 27 Passed' "$out/different/suite.log" || failed=1
grep -aq '26 Passed | 1 Failed' "$out/same/suite.log" && grep -a '\[FAIL\]' "$out/same/suite.log" | grep -q "$expected_same" || failed=1
exit "$failed"
