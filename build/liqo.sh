#!/bin/bash
# liqo.sh MINOR: build a release of Liqo, pinned in testdata/liqo/MINOR, into
# bin/liqo-MINOR: liqoctl, the chart, and the controllers' images as the chart
# names them. "liqo.sh MINOR liqoctl" builds liqoctl alone.
set -euo pipefail
minor=$1 only=${2:-} out=bin/liqo-$1
read -r module version < <(cd "testdata/liqo/$minor" && go mod download github.com/liqotech/liqo && go list -m -f '{{.Dir}} {{.Version}}' github.com/liqotech/liqo)
source=$out/source
rm -rf "$source"
mkdir -p "$out/images"
cp -r "$module" "$source"
chmod -R u+w "$source"
build/gobuild.sh "$source" "$out/liqoctl" ./cmd/liqoctl "-s -w"
if [ "$only" = liqoctl ]; then
	exit
fi
# The one file that is not Liqo's; it says why.
cp testdata/liqo/vxlan.go "$source/pkg/utils/network/geneve/netlink.go"
# Up to v1.1 the gateway runs wireguard-go as a program of its own, where the kernel has no WireGuard.
build/gobuild.sh . "$out/wireguard-go" golang.zx2c4.com/wireguard "-s -w"
for program in liqo-controller-manager webhook ipam fabric gateway gateway/wireguard gateway/geneve crd-replicator virtual-kubelet proxy uninstaller; do
	name=${program##*/}
	build/gobuild.sh "$source" "$out/$name" "./cmd/$program" "-s -w"
	files=("$out/$name=/usr/bin/$name")
	if [ "$name" = wireguard ]; then
		files+=("$out/wireguard-go=/usr/bin/wireguard-go")
	fi
	bin/image -o "$out/images/$name.tar" -tag "ghcr.io/liqotech/$program:$version" "${files[@]}" -- "/usr/bin/$name"
	rm "$out/$name" # the image has it
done
rm "$out/wireguard-go"
rm -rf "$out/chart"
cp -r "$source/deployments/liqo" "$out/chart"
echo "$version" >"$out/version"
