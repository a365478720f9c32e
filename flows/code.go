package flows

// Code names a check, a finding or an error for ever: LT-P… is a check before
// anything is changed, LT-D… one of a connection that exists, LT-E… an error of
// a run. Package check explains each.
type Code string

// Checks before a connection that this package names itself; package check has the
// others. If one of these fails, there is no plan, with two exceptions: CodePermission is
// judged by the plan, and CodeImage is the result of a step of the plan.
const (
	CodeAnswers    Code = "LT-P001" // the API server answers, and lets us in
	CodeDifferent  Code = "LT-P002" // the two are different clusters
	CodeSoftware   Code = "LT-P003" // the kinds are served, and something acts on them
	CodeClusterID  Code = "LT-P004" // the cluster ID is there, valid and unique
	CodeNetworks   Code = "LT-P005" // address ranges are known
	CodePermission Code = "LT-P006" // the user may do all that the plan does
	CodeOperator   Code = "LT-P007" // the operator runs
	CodeImage      Code = "LT-P009" // a node can pull the image that is to be installed
	CodeKernel     Code = "LT-P014" // the nodes' kernel is new enough
	CodePeer       Code = "LT-P023" // a peer is still the same cluster
	CodeFreePort   Code = "LT-P021" // the node port is free, and the cluster assigns it
)

// Errors of a command, before or besides a run.
const (
	CodeUnexpected  Code = "LT-E001" // an error that this program does not expect
	CodeUsage       Code = "LT-E002" // flags or configuration that do not work
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
	CodeNamespace    Code = "LT-E022" // a namespace that is needed is not the connection's own
	CodeOwnership    Code = "LT-E031" // another field manager owns what is to be changed
	CodeUndone       Code = "LT-E032" // a change was undone by somebody else
	CodeUnnamedPeer  Code = "LT-E033" // the other cluster can't be asked, and it is not clear which one it is
	CodeNotConnected Code = "LT-E034" // there is no connection to work on
	CodeInterrupts   Code = "LT-E035" // the plan would interrupt traffic, although it must not
	CodeInvitation   Code = "LT-E036" // an invitation or an answer does not fit the cluster
	CodeKeysKept     Code = "LT-E037" // neither gateway can replace its key
	CodeTemplate     Code = "LT-E038" // a gateway template does not exist, or can't be run here
	CodeByHand       Code = "LT-E039" // a step by hand does not fit the existing objects
	CodePod          Code = "LT-E040" // a gateway's pod does not start
	CodeTunnel       Code = "LT-E041" // the gateways do not reach each other
	CodeEndpoint     Code = "LT-E042" // the gateway server gets no address
	CodeRemapping    Code = "LT-E043" // the operator assigns no addresses
	CodeKey          Code = "LT-E044" // a gateway does not publish its key
	CodeDeletion     Code = "LT-E045" // a deletion does not end
	CodeVerification Code = "LT-E046" // a packet got lost
	CodeLent         Code = "LT-E057" // a reset would cut off a virtual node
	CodeTimeout      Code = "LT-E049" // any other wait that did not end
)
