SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# All builds and tests have the same settings, so that they share one cache.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -buildvcs=false

# The tag of a release, or else the next version in CHANGELOG.md and the commit.
VERSION    := $(shell build/version.sh)
COMMIT     := $(shell git describe --always --dirty --exclude '*' 2>/dev/null)
# The release of Kubernetes in the go.mod of a module.
kubernetes = $(shell awk '$$1 == "require" && $$2 == "k8s.io/kubernetes" {print $$3; exit}' $(1)/go.mod)
# Without these flags, nodes report v0.0.0 and kubectl warns about the skew.
kube_ldflags = -s -w $(foreach p,k8s.io/component-base/version k8s.io/client-go/pkg/version,\
	-X $(p).gitVersion=$(1) -X $(p).gitMajor=1 -X $(p).gitMinor=$(word 2,$(subst ., ,$(1))))
# make test runs some of the expensive parts (build/parts), and a part of exhaustive
# tests. The seed chooses both. Each commit has another seed, so that all parts run over
# time.
SEED ?= $(shell printf %d 0x$$(git rev-parse HEAD 2>/dev/null | cut -c1-7 | grep . || echo 1))

GOLANGCI_LINT  := v2.15.0
CONTROLLER_GEN := v0.21.0
ACTIONLINT     := v1.7.12
# The published image of a release, which the program installs by default. Other builds
# have no default.
RELEASED_IMAGE ?=
IMAGE          ?= lab.local/liqo-gateway:dev

# All sources of the programs. The list comes from git, so that no folder is forgotten.
SOURCES     := $(wildcard $(shell git ls-files --cached --others --exclude-standard -- '*.go' 'render/*.yaml' '*.schema.json' ':!*_test.go' ':!build/*' ':!testdata/*' ':!cmd/liqo-tui-dns/*')) go.mod go.sum
DNS_SOURCES := cmd/liqo-tui-dns/main.go cmd/liqo-tui-dns/go.mod cmd/liqo-tui-dns/go.sum
LAB_SOURCES := $(wildcard testdata/lab/*.go) testdata/lab/go.mod testdata/lab/go.sum

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: bin/liqo-tui bin/liqo-gateway ## Build both programs into bin/

bin/liqo-tui: $(SOURCES)
	@build/gobuild.sh . bin/liqo-tui ./cmd/liqo-tui "-s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.releasedImage=$(RELEASED_IMAGE)"

bin/liqo-gateway: $(SOURCES)
	@build/gobuild.sh . bin/liqo-gateway ./cmd/liqo-gateway "-s -w"

bin/liqo-tui-dns: $(DNS_SOURCES)
	@build/gobuild.sh cmd/liqo-tui-dns bin/liqo-tui-dns . "-s -w"

image: bin/images/liqo-gateway.tar ## Pack the gateway's image as bin/images/liqo-gateway.tar

bin/images/liqo-gateway.tar: bin/liqo-gateway bin/liqo-tui-dns bin/image
	@mkdir -p bin/images
	bin/image -o $@ -tag $(IMAGE) bin/liqo-gateway=/liqo-gateway bin/liqo-tui-dns=/liqo-tui-dns -- /liqo-gateway

# This is not in bin/images, because every node of the lab imports the archives there.
images: bin/release/liqo-gateway.tar ## Pack the gateway for amd64, arm64 and arm/v7 as one OCI archive

bin/release/liqo-gateway.tar: $(SOURCES) $(DNS_SOURCES) bin/image
	@for arch in amd64 arm64 arm; do \
		export GOARCH=$$arch GOARM=7; \
		build/gobuild.sh . bin/release/$$arch/liqo-gateway ./cmd/liqo-gateway "-s -w"; \
		build/gobuild.sh cmd/liqo-tui-dns bin/release/$$arch/liqo-tui-dns . "-s -w"; \
	done
	bin/image -o $@ -tag $(IMAGE) $(foreach p,amd64:amd64 arm64:arm64 arm/v7:arm,$(foreach b,liqo-gateway liqo-tui-dns,\
		linux/$(word 1,$(subst :, ,$p)):bin/release/$(word 2,$(subst :, ,$p))/$b=/$b)) -- /liqo-gateway

release: ## Build all files of a release into dist/, twice, and try them. REGISTRY=ghcr.io/me sets the image in programs
	@build/release.sh dist
	@build/reproduce.sh dist
	cd build/release && RELEASE=$(CURDIR)/dist go test -count=1 -tags release .

bin/image: build/image/main.go build/image/go.mod build/image/go.sum
	@build/gobuild.sh build/image bin/image . "-s -w"

# ---- the lab: two real clusters on this machine (needs root)

lab: lab-of-two build ## Build what a lab of two clusters needs, without starting it

lab-of-three: lab bin/flanneld bin/calico bin/udptunnel.tar ## Build what a lab of three clusters needs, with Calico and flannel

# What two clusters on a bridge need. The demonstration builds nothing else.
lab-of-two: deps bin/lab bin/kubelab bin/kubectl bin/images/pod.tar image

deps: ## Install the Debian packages that the lab and the kernel tests need
	@build/deps.sh

bin/lab: $(LAB_SOURCES)
	@build/gobuild.sh testdata/lab bin/lab . "-s -w"

bin/kubelab: testdata/lab/kubelab/main.go testdata/lab/go.mod testdata/lab/go.sum
	@build/gobuild.sh testdata/lab bin/kubelab ./kubelab "$(call kube_ldflags,$(call kubernetes,testdata/lab))"

bin/kubectl: testdata/lab/go.mod testdata/lab/go.sum
	@build/gobuild.sh testdata/lab bin/kubectl k8s.io/kubernetes/cmd/kubectl "$(call kube_ldflags,$(call kubernetes,testdata/lab))"

# kubeadm writes the DNS server of its clusters.
bin/kubeadm: testdata/lab/go.mod testdata/lab/go.sum
	@build/gobuild.sh testdata/lab bin/kubeadm k8s.io/kubernetes/cmd/kubeadm "$(call kube_ldflags,$(call kubernetes,testdata/lab))"

# The tag is the version in its go.mod.
bin/coredns.tar: testdata/coredns/main.go testdata/coredns/go.mod testdata/coredns/go.sum bin/image
	@build/gobuild.sh testdata/coredns bin/coredns . "-s -w"
	bin/image -o $@ -tag lab.local/coredns:$$(awk '$$2 == "github.com/coredns/coredns" {print $$3; exit}' testdata/coredns/go.mod) bin/coredns=/coredns -- /coredns

# A program of each C library that pods of clusters have.
bin/resolve.tar: testdata/resolve/resolve.c bin/images/pod.tar
	@build/deps.sh gcc libc6-dev musl-tools
	gcc -static -O2 -w -o bin/resolve-glibc $<
	musl-gcc -static -O2 -o bin/resolve-musl $<
	bin/image -o $@ -tag lab.local/resolve:v1 bin/pod=/pod bin/resolve-glibc=/glibc bin/resolve-musl=/musl -- /pod

bin/flanneld: testdata/flannel/main.go testdata/flannel/go.mod testdata/flannel/go.sum
	@build/gobuild.sh testdata/flannel bin/flanneld . "-s -w"

bin/registry: testdata/registry/main.go testdata/registry/go.mod testdata/registry/go.sum
	@build/gobuild.sh testdata/registry bin/registry . "-s -w"

# The real Helm. Tests render the chart with the library of the same release.
bin/helm: testdata/helm/go.mod testdata/helm/go.sum
	@build/gobuild.sh testdata/helm bin/helm helm.sh/helm/v4/cmd/helm "-s -w"

# The module contains its CRDs.
bin/calico: $(wildcard testdata/calico/*.go) testdata/calico/go.mod testdata/calico/go.sum
	@build/gobuild.sh testdata/calico $@/calico . "-s -w"
	@rm -rf $@/crds && install -d $@/crds
	@install -m 644 "$$(cd testdata/calico && go list -m -f '{{.Dir}}' github.com/projectcalico/calico)"/libcalico-go/config/crd/*.yaml $@/crds
	@touch $@

# The operator assigns addresses only with that tag. The module contains the C sources,
# and the agent compiles them when it starts.
bin/cilium: $(wildcard testdata/cilium/*.go testdata/cilium/mcsapi/*) testdata/cilium/go.mod testdata/cilium/go.sum | clang
	@GOFLAGS="$(GOFLAGS) -tags=ipam_provider_operator" build/gobuild.sh testdata/cilium $@/cilium . "-s -w"
	@rm -rf $@/bpf && install -d $@/bpf
	@cd "$$(cd testdata/cilium && go list -m -f '{{.Dir}}' github.com/cilium/cilium)"/bpf && cp -r --no-preserve=mode *.[ch] include lib $(CURDIR)/$@/bpf
	@touch $@

clang: ## Install the compiler that Cilium uses on nodes of the lab
	@build/deps.sh clang-19

bin/images/pod.tar: $(filter-out %_test.go,$(wildcard testdata/lab/pod/*.go)) bin/image
	@mkdir -p bin/images
	@build/gobuild.sh testdata/lab bin/pod ./pod "-s -w"
	bin/image -o $@ -tag lab.local/pod:v1 bin/pod=/pod -- /pod

# The real API server for tests, with the names that envtest needs.
bin/kubernetes: bin/kubelab bin/kubectl
	@mkdir -p $@
	@for name in etcd kube-apiserver; do ln -sf ../kubelab $@/$$name; done
	@ln -sf ../kubectl $@/kubectl
	@touch $@

# The gateway of an earlier commit. Until there is a release, this is a commit of the
# history.
PREVIOUS ?= 84c5427
bin/previous.tar: build/previous.sh bin/image
	@build/previous.sh $(PREVIOUS) $@ lab.local/liqo-gateway:previous

# Image and program of the last commit at which all tests passed.
bin/before.tar: build/previous.sh build/passed bin/image
	@build/previous.sh $$(cat build/passed) $@ lab.local/liqo-gateway:before bin/before-liqo-tui

# A gateway that is not ours. Its test loads it into the lab.
bin/udptunnel.tar: testdata/udptunnel/main.go $(SOURCES) bin/image
	@build/gobuild.sh . bin/udptunnel ./testdata/udptunnel "-s -w"
	bin/image -o $@ -tag lab.local/udptunnel:dev bin/udptunnel=/udptunnel -- /udptunnel

# The API servers of other minor versions, with the same etcd. The first build of each
# takes about 5 minutes on two cores.
bin/kubernetes-%: testdata/kubernetes/%/go.mod testdata/kubernetes/%/go.sum bin/kubernetes
	@build/gobuild.sh testdata/kubernetes/$* $@/kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver \
		"$(call kube_ldflags,$(call kubernetes,testdata/kubernetes/$*))"
	@ln -sf ../kubelab $@/etcd
	@ln -sf ../kubectl $@/kubectl
	@touch $@

# The released liqoctl. Tests run it against our operator.
bin/liqoctl: testdata/liqo/1.2/go.mod testdata/liqo/1.2/go.sum build/liqo.sh
	@build/liqo.sh 1.2 liqoctl
	@ln -sf liqo-1.2/liqoctl $@

# A complete Liqo of a minor version: images of the controllers, chart, liqoctl.
bin/liqo-%/version: testdata/liqo/%/go.mod testdata/liqo/%/go.sum testdata/liqo/vxlan.go build/liqo.sh bin/image
	@build/liqo.sh $*

lab-up: lab-of-two ## Bring two clusters up: rome and milan
	bin/lab up

lab-down: ## Remove the clusters completely
	@if [ -x bin/lab ]; then bin/lab down; fi

demo: lab-of-two build ## Two clusters, connected: from nothing to pods that reach each other
	@build/demo.sh

# ---- tests

check: ## Unit tests, golden files and lint: no API server, no lab, no network namespaces
	@build/check.sh
	@$(MAKE) --no-print-directory lint

test: ## All kinds of tests, but only a third of the expensive parts; PART=NAME runs one part, MINUTES=n bounds the time
	@SEED=$(SEED) build/test.sh

test-all: ## All tests of all parts that have not passed at this commit; PART=NAME runs one part
	@TEST_ALL=1 SEED=$(SEED) build/test.sh

tests-list: ## Write the list of all tests, which make check and make test compare
	@go run ./build/parts list > build/tests.txt

soak: lab-of-three ## Break three connected clusters at random for SOAK=10m, in the order of SEED=1
	@bin/lab down >/dev/null 2>&1 || true
	@trap 'bin/lab down' EXIT; REQUIRE_LAB=1 SOAK=$${SOAK:-10m} go test -count=1 -timeout 24h -v -run 'TestThreeClusters/(Services|faults|reset)' $$(go run ./build/parts where TestThreeClusters)

soak-lending: lab-of-two build ## Break two clusters at random for SOAK=10m, while one runs pods of the other
	@bin/lab down >/dev/null 2>&1 || true
	@trap 'bin/lab down' EXIT; bin/lab up --nodes 2 --cni milan=ptp && bin/lab load bin/images/liqo-gateway.tar && \
		REQUIRE_LAB=1 SOAK=$${SOAK:-10m} go test -count=1 -timeout 24h -v -run '^TestLabLending' $$(go run ./build/parts where TestLabLending)

soak-tui: lab ## Leave the dashboard running for SOAK=1h while things change, and compare it with info peer
	@build/soak-tui.sh

mcs-conformance: lab-of-two build bin/kubeadm bin/coredns.tar ## Run the conformance suite of the Multi-Cluster Services API: SUITE=its program
	@build/mcs-conformance.sh "$(SUITE)"

bench: lab build bin/liqoctl ## Measure how long connecting and removing takes, in the lab
	@build/bench.sh

bench-liqo: lab-of-two build bin/liqo-1.2/version ## The same measurement in clusters with Liqo, and its data plane beside ours
	@LIQO=1.2 build/bench.sh
	@trap 'bin/lab down' EXIT; REQUIRE_LAB=1 go test -count=1 -tags bench -timeout 30m -v -run TestBenchBesideLiqo $$(go run ./build/parts where TestBenchBesideLiqo)

bench-peering: lab-of-two build ## Measure lending without Liqo: times, and CPU, memory and traffic with 100 pods
	@bin/lab down >/dev/null 2>&1 || true
	@trap 'bin/lab down' EXIT; bin/lab up && bin/lab load bin/images/liqo-gateway.tar && \
		REQUIRE_LAB=1 go test -count=1 -tags bench -timeout 30m -v -run TestBenchPeering $$(go run ./build/parts where TestBenchPeering)

bench-services: lab-of-two build ## Measure how fast changes of an exported Service arrive, and what 1000 Services cost
	@bin/lab down >/dev/null 2>&1 || true
	@trap 'bin/lab down' EXIT; bin/lab up && bin/lab load bin/images/liqo-gateway.tar && \
		REQUIRE_LAB=1 go test -count=1 -tags bench -timeout 40m -v -run TestBenchServices $$(go run ./build/parts where TestBenchServices)

bench-gateway: lab build bin/wireguard2022 ## Measure the data plane: throughput, NAT, maps, memory
	@build/bench-gateway.sh

bin/wireguard2022: testdata/wireguard2022/main.go testdata/wireguard2022/go.mod testdata/wireguard2022/go.sum
	@build/gobuild.sh testdata/wireguard2022 bin/wireguard2022 . "-s -w"

bench-tui: ## Measure CPU and memory of the terminal program with thousands of connections
	@build/bench-tui.sh

screenshots: bin/liqo-tui bin/screenshots ## Take the README's pictures from the real program's demonstration
	@build/screenshots.sh

bin/screenshots: $(wildcard build/screenshots/*.go) build/screenshots/go.mod build/screenshots/go.sum
	@build/gobuild.sh build/screenshots bin/screenshots . "-s -w"

bench-operator: bin/kubernetes ## Measure the costs of the operator, with 200 peers, and at a restart with 1000 consumers
	@build/bench-operator.sh

golden: ## Rewrite the golden files
	UPDATE=1 go test ./render ./flows/... ./gateway/... ./tui/... ./build/chart
	UPDATE=1 go test -run 'Stay$$' ./internal/frozen ./cmd/liqo-tui ./cmd/liqo-gateway ./gateway/agent ./gateway/operator

cross: ## Compile the admin's program for Windows and macOS
	@for os in windows darwin; do GOOS=$$os go build -o /dev/null ./cmd/liqo-tui && echo "compiled for $$os"; done

lint: bin/golangci-lint-$(GOLANGCI_LINT) bin/actionlint-$(ACTIONLINT) ## Check style, imports and workflows
	$< run ./... ./testdata/udptunnel
	go vet -tags soak,bench $$(go run ./build/parts where TestDashboardSoak) $$(go run ./build/parts where TestBenchPeering) # code that no other build has; as a setting of the linter, the tags would cost its cache
	cd testdata/lab && $(CURDIR)/$< run -c $(CURDIR)/.golangci.yml --disable noctx . ./pod
	cd testdata/flannel && $(CURDIR)/$< run -c $(CURDIR)/.golangci.yml ./...
	cd testdata/calico && $(CURDIR)/$< run -c $(CURDIR)/.golangci.yml ./...
	cd testdata/registry && $(CURDIR)/$< run -c $(CURDIR)/.golangci.yml ./...
	cd testdata/coredns && $(CURDIR)/$< run -c $(CURDIR)/.golangci.yml ./...
	cd testdata/wireguard2022 && $(CURDIR)/$< run -c $(CURDIR)/.golangci.yml ./...
	cd testdata/helm && $(CURDIR)/$< run -c $(CURDIR)/.golangci.yml ./...
	cd build/release && $(CURDIR)/$< run -c $(CURDIR)/.golangci.yml --build-tags release ./...
	cd cmd/liqo-tui-dns && $(CURDIR)/$< run -c $(CURDIR)/.golangci.yml ./...
	cd build/image && $(CURDIR)/$< run -c $(CURDIR)/.golangci.yml ./...
	cd build/screenshots && $(CURDIR)/$< run -c $(CURDIR)/.golangci.yml --disable noctx ./...
	bin/actionlint-$(ACTIONLINT) -shellcheck= -pyflakes=

bin/actionlint-$(ACTIONLINT):
	@mkdir -p bin
	@GOBIN=$(CURDIR)/bin go install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT)
	@mv bin/actionlint $@

fmt: bin/golangci-lint-$(GOLANGCI_LINT) ## Format the code
	$< fmt ./...

bin/golangci-lint-$(GOLANGCI_LINT):
	@echo "installing golangci-lint $(GOLANGCI_LINT): about 3 minutes the first time"
	@mkdir -p bin
	@GOBIN=$(CURDIR)/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT) \
		>bin/golangci-lint.log 2>&1 || { cat bin/golangci-lint.log; exit 1; }
	@mv bin/golangci-lint $@

generate: ## Generate the CRDs from Liqo's types, and the Helm chart
	@build/generate.sh $(CONTROLLER_GEN)
	go run ./build/chart -o charts/liqo-tui

.PHONY: help build image images release lab lab-of-two lab-of-three deps clang lab-up lab-down demo check test test-all tests-list soak soak-lending soak-tui bench bench-liqo bench-peering bench-services bench-operator bench-gateway bench-tui mcs-conformance screenshots golden cross lint fmt generate
