package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// The image that testdata/coredns is packed as.
const (
	dnsRepository = "lab.local"
	dnsTag        = "v1.15.0"
)

func dnsCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "dns",
		Short: "give each cluster the DNS server of kubeadm; run again, it does what kubeadm's upgrade does",
		Args:  cobra.NoArgs,
		RunE: withLab(dir, func(cmd *cobra.Command, l Lab, _ []string) error {
			lab, err := os.Executable()
			if err != nil {
				return err
			}
			r, beside := newReporter(), filepath.Dir(lab)
			if l, err = loadImages(l, []string{filepath.Join(beside, "coredns.tar")}, r); err != nil {
				return fmt.Errorf("%w: run make bin/coredns.tar", err)
			}
			var group errgroup.Group
			for _, c := range l.Plan() {
				group.Go(func() error { return l.dns(cmd.Context(), c, filepath.Join(beside, "kubeadm"), r) })
			}
			return group.Wait()
		}),
	}
}

// dns applies kubeadm's addon, and waits for its pods. kubeadm writes all of it: Corefile,
// Deployment, Service and rights.
func (l Lab) dns(ctx context.Context, c Cluster, kubeadm string, r *reporter) error {
	api, err := apiClient(l.adminKubeconfig(c))
	if err != nil {
		return err
	}
	version, err := api.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("version of %s: %w", c.Name, err)
	}
	// The address keeps kubeadm from reading this machine's default route.
	settings := []any{
		map[string]any{
			"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "InitConfiguration",
			"localAPIEndpoint": map[string]any{"advertiseAddress": c.Nodes[0].Address},
			"nodeRegistration": map[string]any{"name": c.Nodes[0].Name, "criSocket": "unix://" + containerdSocket},
		},
		map[string]any{
			"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration",
			"kubernetesVersion": version.GitVersion,
			"networking":        map[string]any{"serviceSubnet": serviceNetwork},
			"dns":               map[string]any{"imageRepository": dnsRepository, "imageTag": dnsTag},
		},
	}
	var config bytes.Buffer
	for _, s := range settings {
		config.WriteString("---\n")
		if err := json.NewEncoder(&config).Encode(s); err != nil {
			return fmt.Errorf("encode the settings of kubeadm: %w", err)
		}
	}
	file := filepath.Join(l.pkiDir(c), "kubeadm.yaml")
	if err := os.WriteFile(file, config.Bytes(), 0o600); err != nil {
		return err
	}
	args := []string{"init", "phase", "addon", "coredns", "--config", file, "--kubeconfig", l.adminKubeconfig(c)}
	if out, err := exec.CommandContext(ctx, kubeadm, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: kubeadm %s: %w: %s", c.Name, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := poll(ctx, func() (bool, error) { return dnsRuns(ctx, api) }); err != nil {
		return fmt.Errorf("%s: kubeadm's DNS server: %w", c.Name, err)
	}
	r.say("%s: the DNS server of kubeadm runs", c.Name)
	return nil
}

func dnsRuns(ctx context.Context, api kubernetes.Interface) (bool, error) {
	d, err := api.AppsV1().Deployments("kube-system").Get(ctx, "coredns", metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	s := d.Status
	return s.ObservedGeneration == d.Generation && s.UpdatedReplicas == *d.Spec.Replicas && s.AvailableReplicas == *d.Spec.Replicas, nil
}
