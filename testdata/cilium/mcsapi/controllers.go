// Package controllers stands in for the module of this name, of which Cilium uses
// one name of an annotation and nothing else. The module can't be downloaded.
package controllers

// DerivedServiceAnnotation is on imported Services.
const DerivedServiceAnnotation = "multicluster.kubernetes.io/derived-service"
