#!/bin/bash
# deps.sh [PACKAGE...]: install the given Debian packages, or all that the lab and the
# kernel tests need.
set -euo pipefail
if (($# == 0)); then
	set -- containerd runc containernetworking-plugins iptables ipset nftables netbase iproute2 conntrack curl procps \
		qemu-system-x86 busybox-static cpio kmod wireguard-tools iperf3 tmux
fi
missing=()
for package in "$@"; do
	dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
	exit 0
fi
if ((EUID != 0)); then
	echo "not root: the lab needs these Debian packages, which are not installed: ${missing[*]}"
	exit 0
fi
echo "installing Debian packages: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
if ! { apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
	tail -n 20 "$log" >&2
	echo "installing Debian packages failed" >&2
	exit 1
fi
