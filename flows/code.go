package flows

// Code names a check, a finding or an error for ever: LT-P… is a check before
// anything is changed, LT-D… one of a connection that exists, LT-S… one of Services
// by name, LT-E… an error of a run. Package check explains each.
type Code string

// Codes of checks that this package names itself; package check has the other codes. If
// one of these checks fails, there is no plan. Two codes are exceptions: the plan itself
// judges CodePermission, and a step of the plan decides CodeImage.
const (
	CodeAnswers     Code = "LT-P001" // the API server answers, and accepts the user
	CodeDifferent   Code = "LT-P002" // the two contexts lead to different clusters
	CodeSoftware    Code = "LT-P003" // the API server has Liqo's kinds, and an operator runs for them
	CodeClusterID   Code = "LT-P004" // the cluster ID is there, valid and unique
	CodeNetworks    Code = "LT-P005" // the address ranges are known
	CodePermission  Code = "LT-P006" // the user may do everything that the plan does
	CodeOperator    Code = "LT-P007" // the operator runs
	CodeImage       Code = "LT-P009" // a node can pull the image that is to be installed
	CodeKernel      Code = "LT-P014" // the nodes' kernel is new enough
	CodeGatewayMode Code = "LT-P017" // packets of pods use the nodes' routes
	CodePeer        Code = "LT-P023" // the peer is still the same cluster
	CodeFreePort    Code = "LT-P021" // the node port is free, and the cluster assigns it
)

// Errors of a command that do not come from its run.
const (
	CodeUnexpected  Code = "LT-E001" // an error that this program does not expect
	CodeUsage       Code = "LT-E002" // flags or configuration that can't be used
	CodeInterrupted Code = "LT-E003" // a signal ended it
	CodeDeclined    Code = "LT-E004" // the admin said no
	CodeUnreachable Code = "LT-E005" // a cluster does not answer
	CodeAccess      Code = "LT-E006" // a cluster denies access
	CodeUnfit       Code = "LT-E007" // an installation does not fit the cluster
	CodeNotReady    Code = "LT-E008" // an installation did not become ready
)

// Errors of a run.
const (
	CodeLost         Code = "LT-E010" // a cluster stopped answering, and did not come back
	CodeCredentials  Code = "LT-E011" // a cluster no longer accepts the credentials
	CodeForbidden    Code = "LT-E012" // the user may not do what a step does
	CodeRefused      Code = "LT-E020" // the API server refused a change
	CodeNodePort     Code = "LT-E021" // the node port is taken or outside the range
	CodeNamespace    Code = "LT-E022" // a needed namespace belongs to something else
	CodeOwnership    Code = "LT-E031" // another field manager owns a field that the plan changes
	CodeUndone       Code = "LT-E032" // another program has undone a change
	CodeUnnamedPeer  Code = "LT-E033" // the other cluster can't be asked, and its cluster ID is not clear
	CodeNotConnected Code = "LT-E034" // there is no connection to work on
	CodeInterrupts   Code = "LT-E035" // the plan would interrupt traffic, although it must not
	CodeInvitation   Code = "LT-E036" // an invitation or an answer does not fit the cluster
	CodeKeysKept     Code = "LT-E037" // neither gateway can replace its key
	CodeTemplate     Code = "LT-E038" // a gateway template does not exist, or can't be run here
	CodeByHand       Code = "LT-E039" // a step by hand does not fit the existing objects
	CodePod          Code = "LT-E040" // a gateway's pod does not start
	CodeTunnel       Code = "LT-E041" // the gateways do not reach each other
	CodeEndpoint     Code = "LT-E042" // the gateway server gets no address
	CodeRemapping    Code = "LT-E043" // the operator assigns no remapped ranges
	CodeKey          Code = "LT-E044" // a gateway does not publish its key
	CodeDeletion     Code = "LT-E045" // a deletion does not end
	CodeVerification Code = "LT-E046" // a packet got lost
	CodeLent         Code = "LT-E057" // a reset would cut off a virtual node
	CodeServicesOff  Code = "LT-E058" // a cluster has no Services by name
	CodeExport       Code = "LT-E059" // a Service can't be exported, or its export does not arrive
	CodeTimeout      Code = "LT-E049" // any other wait that takes too long
)
