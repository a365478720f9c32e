#!/bin/bash
# generate.sh CONTROLLER-GEN-VERSION: CRDs from the Go types of the Liqo release in go.mod.
set -euo pipefail
kinds="core.liqo.io_foreignclusters ipam.liqo.io_networks ipam.liqo.io_ips networking.liqo.io_configurations networking.liqo.io_connections
networking.liqo.io_gatewayclients networking.liqo.io_gatewayservers networking.liqo.io_internalfabrics networking.liqo.io_internalnodes
networking.liqo.io_publickeies networking.liqo.io_wggatewayclienttemplates networking.liqo.io_wggatewayservertemplates"
# Only clusters that will use other clusters' resources, or lend theirs, get these.
peering="authentication.liqo.io_identities authentication.liqo.io_renews authentication.liqo.io_resourceslices authentication.liqo.io_tenants
offloading.liqo.io_namespacemaps offloading.liqo.io_namespaceoffloadings offloading.liqo.io_shadowendpointslices offloading.liqo.io_shadowpods offloading.liqo.io_virtualnodes"
mkdir -p bin
[ -x "bin/controller-gen-$1" ] || {
	GOBIN=$PWD/bin go install "sigs.k8s.io/controller-tools/cmd/controller-gen@$1"
	mv bin/controller-gen "bin/controller-gen-$1"
}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"bin/controller-gen-$1" crd:maxDescLen=0 \
	paths=github.com/liqotech/liqo/apis/core/v1beta1 paths=github.com/liqotech/liqo/apis/networking/v1beta1 paths=github.com/liqotech/liqo/apis/ipam/v1alpha1 \
	paths=github.com/liqotech/liqo/apis/authentication/v1beta1 paths=github.com/liqotech/liqo/apis/offloading/v1beta1 \
	output:crd:dir="$out"
for kind in $kinds; do
	cp "$out/$kind.yaml" render/crds/
done
for kind in $peering; do
	cp "$out/$kind.yaml" render/crds/peering/
done
# These two contain the schema of a whole pod, 4000 lines of it, so they are left open.
# This is safe: our operator writes no template, and the pod that is made from a ShadowPod
# is validated as a Pod.
open() { # KIND FIELD
	awk -v "field=$2" '$0 == "              " field ":" { print; print "                type: object"; print "                x-kubernetes-preserve-unknown-fields: true"; skip = 1; next }
		skip && !/^               / { skip = 0 }
		!skip' "$out/$1.yaml" >"render/crds/peering/$1.yaml"
}
open offloading.liqo.io_virtualnodes template
open offloading.liqo.io_shadowpods pod
