// Package services decides which objects give a Service one name in several connected clusters, by
// the Multi-Cluster Services API (KEP-1645, https://github.com/kubernetes/enhancements/tree/master/keps/sig-multicluster/1645-multi-cluster-services-api,
// "the KEP" below). The package is pure.
//
//   - [Exported] makes the EndpointSlices that a cluster offers its peers, from a Service and its ServiceExport.
//     A [Head] in an annotation of these slices describes the Service.
//   - [Admit] checks an EndpointSlice that a peer has sent.
//   - [Explain] shows the way from one name to its endpoints, and [Rows] lists all names.
//   - [Merge] makes a cluster's objects for one name: the ServiceImport, the derived Service, and the
//     EndpointSlices with addresses as this cluster sees them.
package services
