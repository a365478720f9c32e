package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// markFile is the file of `lab mark`: the state of a fresh lab.
const markFile = "mark.json"

type mark struct {
	Kernels listing            `json:"kernels"`
	Objects map[string]objects `json:"objects"` // by cluster
	Loaded  []string           `json:"loaded"`
	// Made identifies the files from which `lab fresh` made the lab; "" if another command made it.
	Made string `json:"made"`
}

// listing has everything that is compared.
func (m mark) listing(fresh mark) listing {
	all := listing{}
	maps.Copy(all, m.Kernels)
	for cluster, found := range m.Objects {
		var before objects
		if fresh.Objects != nil {
			before = fresh.Objects[cluster]
		}
		section := cluster + " objects"
		all[section] = found.listing(section, before)[section]
	}
	return all
}

func (l Lab) marked() (m mark, err error) {
	text, err := os.ReadFile(l.path(markFile))
	if errors.Is(err, os.ErrNotExist) {
		return m, errors.New("the lab was not marked when it was fresh: `lab mark`")
	}
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("read %s: %w", l.path(markFile), err)
	}
	return m, nil
}

func (l Lab) look(ctx context.Context) (m mark, err error) {
	nodes, err := l.running()
	if err != nil {
		return m, err
	}
	m = mark{Loaded: l.Loaded}
	var group errgroup.Group
	group.Go(func() (err error) {
		m.Kernels, err = l.kernels(nodes)
		return err
	})
	group.Go(func() (err error) {
		m.Objects, err = l.ofClusters(func(a api, _ Cluster) (objects, error) { return a.list(ctx) })
		return err
	})
	return m, group.Wait()
}

// ofClusters returns the result of read for each cluster, by name.
func (l Lab) ofClusters(read func(api, Cluster) (objects, error)) (map[string]objects, error) {
	var group errgroup.Group
	var mu sync.Mutex
	all := map[string]objects{}
	for _, c := range l.Plan() {
		group.Go(func() error {
			a, err := newAPI(l.adminKubeconfig(c))
			if err != nil {
				return err
			}
			found, err := read(a, c)
			if err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			all[c.Name] = found
			return nil
		})
	}
	return all, group.Wait()
}

// settled is the time without a change after which a lab counts as fresh. A cluster's controllers
// still work for a second or two after its nodes are ready.
const settled = 3 * time.Second

// markLab stores the state of the lab when it does not change any more.
func (l Lab) markLab(ctx context.Context, made string, r *reporter) error {
	if err := l.resettable(); err != nil {
		return err
	}
	var fresh mark
	var since time.Time
	var changed []string
	err := poll(ctx, func() (bool, error) {
		now, err := l.look(ctx)
		if err == nil {
			err = now.complete()
		}
		if err != nil {
			fresh = mark{}
			return false, err
		}
		if changed = diff(fresh.listing(mark{}), now.listing(mark{})); fresh.Kernels == nil || len(changed) > 0 {
			fresh, since = now, time.Now()
			return false, fmt.Errorf("it changes all the time:\n%s", strings.Join(changed, "\n"))
		}
		return time.Since(since) >= settled, nil
	})
	if err != nil {
		return fmt.Errorf("mark the lab: %w", err)
	}
	fresh.Made = made
	if err := writeJSON(l.path(markFile), fresh); err != nil {
		return err
	}
	r.say("marked: `lab reset` leads back to this")
	return nil
}

// complete returns an error if controllers of a new cluster have not made all of their objects yet.
func (m mark) complete() error {
	for cluster, found := range m.Objects {
		for name, o := range found {
			if o.GetKind() == "Node" && !o.ready() {
				return fmt.Errorf("%s: %s is not ready", cluster, name)
			}
			if o.GetKind() != "Namespace" {
				continue
			}
			for _, needed := range []string{"serviceaccounts " + o.GetName() + "/default", "configmaps " + o.GetName() + "/kube-root-ca.crt"} {
				if _, there := found[needed]; !there {
					return fmt.Errorf("%s: there is no %s yet", cluster, needed)
				}
			}
		}
	}
	return nil
}

// leftError lists the objects that somebody has left in a lab.
type leftError struct {
	lines  []string
	remade []string // nodes or clusters that were made again, because nothing else removes these objects
}

func (e *leftError) Error() string {
	text := "the lab is not as a fresh one:\n" + strings.Join(e.lines, "\n")
	if len(e.remade) > 0 {
		text += "\nmade anew, to be as fresh ones: " + strings.Join(e.remade, ", ")
	}
	return text
}

// reset restores the state of the mark. It removes objects that an admin can remove: API objects,
// images, cuts. It starts dead nodes. If differences remain after patience, it returns them as a
// *leftError, and makes the nodes or clusters with differences again.
func (l Lab) reset(ctx context.Context, patience time.Duration, r *reporter) error {
	fresh, err := l.marked()
	if err != nil {
		return err
	}
	l.Loaded = fresh.Loaded
	if err := l.revive(ctx, r); err != nil {
		return err
	}
	if err := restorePaths(l); err != nil {
		return err
	}
	now, err := l.leadBack(ctx, fresh, patience)
	if err != nil {
		return err
	}
	left := diff(fresh.listing(fresh), now.listing(fresh))
	if len(left) == 0 {
		return l.write() // without the archives that were loaded since the mark
	}
	remade, err := l.remake(ctx, differingSections(fresh.listing(fresh), now.listing(fresh)), r)
	if err != nil {
		return errors.Join(&leftError{lines: left}, err)
	}
	now, err = l.leadBack(ctx, fresh, patience)
	if err == nil {
		if still := diff(fresh.listing(fresh), now.listing(fresh)); len(still) > 0 {
			err = fmt.Errorf("nothing removes it but `lab down`:\n%s", strings.Join(still, "\n"))
		}
	}
	return errors.Join(&leftError{left, remade}, err)
}

func (l Lab) revive(ctx context.Context, r *reporter) error {
	nodes, err := l.running()
	if err != nil {
		return err
	}
	if l.networkComplete() && len(nodes) == len(l.cgroups()) {
		return nil
	}
	// A kubelet creates its Node only when it starts, and `up` would wait for the Node.
	unknown, err := l.unregistered(ctx, nodes)
	if err != nil {
		return err
	}
	if err := l.killNodes(unknown); err != nil {
		return err
	}
	return up(ctx, l, r)
}

// unregistered returns the running nodes without a Node, by folder. If the first node of a cluster
// is dead, nothing is known about that cluster.
func (l Lab) unregistered(ctx context.Context, nodes map[string]int) (map[string]int, error) {
	out := map[string]int{}
	for _, c := range l.Plan() {
		if nodes[l.nodeDir(c.Nodes[0])] == 0 {
			continue
		}
		api, err := apiClient(l.adminKubeconfig(c))
		if err != nil {
			return nil, err
		}
		for _, n := range c.Nodes {
			dir := l.nodeDir(n)
			_, err := api.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
			switch {
			case ignoreNotFound(err) != nil:
				return nil, fmt.Errorf("read Node %s: %w", n.Name, err)
			case err != nil && nodes[dir] != 0:
				out[dir] = nodes[dir]
			}
		}
	}
	return out, nil
}

// leadBack removes objects that an admin can remove, and returns the state as soon as it matches
// the mark, or after patience.
func (l Lab) leadBack(ctx context.Context, fresh mark, patience time.Duration) (mark, error) {
	for began := time.Now(); ; {
		step := time.Now()
		// Half of the time is for programs that remove finalizers from objects.
		now, equal, err := l.step(ctx, fresh, time.Since(began) > patience/2)
		switch {
		case ctx.Err() != nil:
			return now, errors.Join(ctx.Err(), err)
		case err == nil && equal:
			return now, nil
		case time.Since(began) > patience && err != nil:
			return now, err
		case time.Since(began) > patience:
			return l.look(ctx)
		}
		// These programs need the machine, too.
		time.Sleep(max(200*time.Millisecond, time.Since(step)))
	}
}

// step removes objects that can be removed now, and compares. It compares the nodes only if the
// objects match, because the state of the nodes follows from the objects.
func (l Lab) step(ctx context.Context, fresh mark, impatient bool) (now mark, equal bool, err error) {
	now.Objects, err = l.ofClusters(func(a api, c Cluster) (objects, error) { return a.clean(ctx, fresh.Objects[c.Name], impatient) })
	if err != nil {
		return now, false, err
	}
	now.Kernels = fresh.Kernels
	if len(diff(fresh.listing(fresh), now.listing(fresh))) > 0 {
		return now, false, nil
	}
	nodes, err := l.running()
	if err != nil {
		return now, false, err
	}
	if now.Kernels, err = l.kernels(nodes); err != nil {
		return now, false, err
	}
	if err := l.tidy(fresh, now); err != nil {
		return now, false, err
	}
	return now, len(diff(fresh.listing(fresh), now.listing(fresh))) == 0, nil
}

// tidy removes from nodes what no object owns: images that were loaded since the mark, and the
// bridge that the network plugin makes for the first pod of a node and keeps.
func (l Lab) tidy(fresh, now mark) error {
	for _, c := range l.Plan() {
		for _, n := range c.Nodes {
			run := func(argv ...string) error {
				argv, err := l.enterArgs(n, argv)
				if err != nil {
					return err
				}
				return runTool("", argv[0], argv[1:]...)
			}
			isNew := func(section, name string) bool {
				_, was := fresh.Kernels[n.Name+section][name]
				_, is := now.Kernels[n.Name+section][name]
				return is && !was
			}
			for image := range now.Kernels[n.Name+" images"] {
				if isNew(" images", image) {
					if err := run("/usr/bin/ctr", "--namespace=k8s.io", "images", "remove", image); err != nil {
						return err
					}
				}
			}
			if isNew(" links", pluginBridge) {
				if err := run("/usr/sbin/ip", "link", "del", pluginBridge); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// remake makes again the parts of the lab to which the sections of a listing belong: a node, a
// cluster, or, for the network between clusters, everything.
func (l Lab) remake(ctx context.Context, sections []string, r *reporter) (what []string, err error) {
	nodes, err := l.running()
	if err != nil {
		return nil, err
	}
	killed := map[string]int{}
	kill := func(n Node) { killed[l.nodeDir(n)] = nodes[l.nodeDir(n)] }
	network := false
	for _, section := range sections {
		of, _, _ := strings.Cut(section, " ")
		network = network || of == thisMachine || slices.Contains(l.routers(), of)
		for _, c := range l.Plan() {
			for _, n := range c.Nodes {
				// The state of a cluster is on its first node.
				if network || of == c.Name || of == n.Name || of == c.Nodes[0].Name {
					kill(n)
				}
			}
		}
	}
	for dir, pid := range killed {
		what = append(what, filepath.Base(dir))
		if pid == 0 {
			delete(killed, dir)
		}
	}
	slices.Sort(what)
	if network {
		what = append(what, "the network between clusters")
		if err := os.RemoveAll(l.path(networkMarker)); err != nil {
			return what, err
		}
	}
	if err := l.killNodes(killed); err != nil {
		return what, err
	}
	return what, up(ctx, l, r)
}

// makeFresh returns when a fresh and marked lab with the requested shape exists, with archives
// loaded. It resets an existing lab that was made from the same files, and replaces any other.
func makeFresh(ctx context.Context, asked Lab, archives []string, patience time.Duration, r *reporter) error {
	made, err := asked.madeOf(archives)
	if err != nil {
		return err
	}
	l, err := readLab(asked.Dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if lost, found := recoverLab(asked.Dir); found {
			err = down(lost, r)
		} else {
			err = nil
		}
	case err == nil:
		if fresh, unmarked := l.marked(); unmarked == nil && fresh.Made == made && sameShape(l, asked) {
			if err = l.reset(ctx, patience, r); err == nil {
				return nil
			}
			r.say("%v", err)
		}
		err = down(l, r)
	}
	if err != nil {
		return err
	}
	if !exists(asked.path(lockFile)) { // `down` removes the lock with its folder
		if err := lock(ctx, asked.Dir, r); err != nil {
			return err
		}
	}
	if err := up(ctx, asked, r); err != nil {
		return err
	}
	if asked, err = loadImages(asked, archives, r); err != nil {
		return err
	}
	if asked.resettable() != nil {
		return nil //nolint:nilerr // such a lab is made again instead
	}
	return asked.markLab(ctx, made, r)
}

// resettable refuses labs with programs that keep a record of earlier objects: Calico and Cilium of
// the addresses of pods, flannel of its device, Liqo of clusters. After a reset, such a program
// would act on its record.
func (l Lab) resettable() error {
	for _, c := range l.Plan() {
		keeper := c.CNI
		if l.Liqo[c.Name] != "" {
			keeper = "Liqo"
		}
		if keeper == "Liqo" || ownRoutes(keeper) {
			return fmt.Errorf("%s cannot be led back to how it was: %s keeps records; `lab down` and `lab up` instead", c.Name, keeper)
		}
	}
	return nil
}

// madeOf returns a hash of the programs and images from which a lab is made.
func (l Lab) madeOf(archives []string) (string, error) {
	from, err := l.supplies()
	if err != nil {
		return "", err
	}
	files := slices.Concat([]string{from.lab, from.kubelab, from.kubectl}, from.images, archives)
	if from.flanneld != "" {
		files = append(files, from.flanneld)
	}
	if from.calico != "" {
		files = append(files, filepath.Join(from.calico, "calico"))
	}
	if from.cilium != "" {
		files = append(files, filepath.Join(from.cilium, "cilium"))
	}
	for _, release := range from.liqo {
		files = append(files, filepath.Join(string(release), "version"))
	}
	slices.Sort(files)
	var text strings.Builder
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&text, "%s %d %s\n", file, info.Size(), info.ModTime().UTC().Format(time.RFC3339Nano))
	}
	return text.String(), nil
}

// sameShape reports whether two labs have the same choices of `lab up`.
func sameShape(a, b Lab) bool {
	a.Loaded, b.Loaded = nil, nil
	was, err := json.Marshal(a)
	is, err2 := json.Marshal(b)
	return err == nil && err2 == nil && string(was) == string(is)
}
