package main

import (
	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/flows"
)

func delegateCommand(io streams, pair *pairFlags) *cobra.Command {
	var r runFlags
	var p flows.DelegateParams
	cmd := &cobra.Command{
		Use:   "delegate",
		Short: "Let the operators carry a changed endpoint or key to each other",
		Long: `Let the operators of two connected clusters carry a changed endpoint or key to each
other, without an admin. Each gets an identity on the other cluster that may get
and patch one gateway and one public key there, and nothing else. Both clusters
need our operator, which has to reach the other's API server. disconnect and reset
take all of it away.`,
		Example: `  liqo-tui network delegate --context rome --remote-context milan`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			delegating := *pair
			delegating.local.delegation, delegating.remote.delegation = true, true
			op := operation{
				name: "delegate",
				plan: func() (func(flows.Facts) flows.Plan, error) {
					return func(f flows.Facts) flows.Plan { return flows.PlanDelegate(p, f) }, nil
				},
				done: func(flows.Facts) string {
					return "The operators carry changed endpoints and keys to each other.\nnext: liqo-tui info peer says what was carried; liqo-tui network disconnect revokes it"
				},
			}
			return op.run(cmd.Context(), io, &delegating, r)
		},
	}
	r.add(cmd)
	f := cmd.Flags()
	f.StringVar(&p.APIServer[flows.A], "api-server", "", "URL by which the remote cluster's operator reaches the local API server (default: the kubeconfig's)")
	f.StringVar(&p.APIServer[flows.B], "remote-api-server", "", "URL by which the local cluster's operator reaches the remote API server (default: likewise)")
	f.StringVarP(&p.Namespaces[flows.A], "namespace", "n", "", "tenant namespace on the local cluster (default: the peering's own)")
	f.StringVar(&p.Namespaces[flows.B], "remote-namespace", "", "tenant namespace on the remote cluster (default: likewise)")
	acceptLiqoctl(cmd)
	return cmd
}
