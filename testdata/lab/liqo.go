package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	liqoNamespace = "liqo"
	// The lab has no DNS server at first. Therefore Liqo's controllers get the address of its
	// IPAM as a setting, and its proxy gets the address of the API server.
	liqoIPAM = "10.96.0.60"
)

// liqoRelease is the folder that build/liqo.sh has made from a release: images,
// the chart, liqoctl.
type liqoRelease string

func (l Lab) liqoReleases(beside string) (map[string]liqoRelease, error) {
	releases := map[string]liqoRelease{}
	for cluster, minor := range l.Liqo {
		folder := filepath.Join(beside, "liqo-"+minor)
		if _, err := os.Stat(filepath.Join(folder, "version")); err != nil {
			return nil, fmt.Errorf("liqo %s: %w: run make bin/liqo-%s", minor, err, minor)
		}
		releases[cluster] = liqoRelease(folder)
	}
	return releases, nil
}

func (r liqoRelease) images() []string {
	if r == "" {
		return nil
	}
	archives, _ := filepath.Glob(filepath.Join(string(r), "images", "*.tar")) // this fails only on a malformed pattern
	return archives
}

// installLiqo installs the release with its own liqoctl, unless it is already
// complete. It uses WireGuard in user space, because this runs on every kernel.
// Without the proxy, v1.2.0's controller manager ends with "no proxy service
// found".
func (l Lab) installLiqo(ctx context.Context, c Cluster, release liqoRelease, r *reporter) error {
	api, err := apiClient(l.adminKubeconfig(c))
	if err != nil {
		return err
	}
	if running, err := liqoRuns(ctx, api); err != nil || running {
		return err
	}
	if err := prepareLiqo(ctx, api); err != nil {
		return fmt.Errorf("prepare %s for Liqo: %w", c.Name, err)
	}
	version, err := os.ReadFile(filepath.Join(string(release), "version"))
	if err != nil {
		return err
	}
	args := []string{
		"install",
		"--kubeconfig", l.adminKubeconfig(c), "--cluster-id", c.Name, "--version", strings.TrimSpace(string(version)),
		"--local-chart-path", filepath.Join(string(release), "chart"),
		"--service-cidr", serviceNetwork, "--skip-validation",
		"--api-server-url", c.APIServer(), "--disable-api-server-sanity-check", "--disable-kernel-version-check", "--disable-telemetry",
		"--set", "networking.gatewayTemplates.wireguard.implementation=userspace", "--set", "metricAgent.enabled=false",
		"--set", "proxy.enabled=true", "--set", "proxy.pod.extraArgs={--force-host=" + apiServiceIP + ":443}", "--set", "controllerManager.pod.extraArgs={--ipam-server=" + liqoIPAM + ":6000}", "--timeout", "4m",
	}
	for _, p := range c.Pods {
		args = append(args, "--pod-cidr", p.String())
	}
	cmd := exec.CommandContext(ctx, filepath.Join(string(release), "liqoctl"), args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("install Liqo in %s: %w: %s", c.Name, err, strings.TrimSpace(out.String()))
	}
	r.say("%s: Liqo %s", c.Name, strings.TrimSpace(string(version)))
	return nil
}

func liqoRuns(ctx context.Context, api *kubernetes.Clientset) (bool, error) {
	found, err := api.AppsV1().Deployments(liqoNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	for _, d := range found.Items {
		if d.Status.ReadyReplicas == 0 {
			return false, nil
		}
	}
	return len(found.Items) > 0, nil
}

// prepareLiqo creates the namespace, and a Service for the IPAM, so that its
// address is known before Liqo is installed.
func prepareLiqo(ctx context.Context, api *kubernetes.Clientset) error {
	_, err := api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: liqoNamespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	_, err = api.CoreV1().Services(liqoNamespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "lab-ipam"},
		Spec: corev1.ServiceSpec{
			ClusterIP: liqoIPAM,
			Ports:     []corev1.ServicePort{{Port: 6000}},
			Selector:  map[string]string{"app.kubernetes.io/name": "ipam", "app.kubernetes.io/instance": "liqo-ipam"},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
