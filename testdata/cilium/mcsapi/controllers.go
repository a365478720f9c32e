// Package controllers replaces the module with this name, because it can't be
// downloaded. Cilium uses nothing of it but the name of an annotation.
package controllers

// DerivedServiceAnnotation is an annotation of imported Services.
const DerivedServiceAnnotation = "multicluster.kubernetes.io/derived-service"
