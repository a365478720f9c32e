//go:build tools

// Package kubernetes pins the kube-apiserver that the API tests run against.
package kubernetes

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
