package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/gateway"
)

// inspectSocket is the socket at which an agent serves its state, which contains no secrets. The socket is in
// the abstract namespace: it needs no directory, belongs to the network namespace, and ends with the process.
const inspectSocket = "@liqo-gateway-inspect"

// Inspection compares the wanted kernel state with the state that an agent finds, both as the commands that
// would create them.
type Inspection struct {
	Wanted      []string `json:"wanted"`
	Found       []string `json:"found"`
	Differences []string `json:"differences"`
	// Problem is the reason that the other fields are missing or incomplete; "" if they are complete.
	Problem string `json:"problem,omitempty"`
}

// inspector is an agent whose state can be inspected.
type inspector interface {
	// States returns the wanted state and the state of the kernel. wanted is empty before the first
	// computation.
	States() (wanted, found gateway.KernelState, err error)
}

func inspect(i inspector) Inspection {
	wanted, found, err := i.States()
	out := Inspection{
		Wanted: lines(wanted), Found: lines(found),
		Differences: append([]string{}, gateway.Explain(found, wanted)...),
	}
	if err != nil {
		out.Problem = err.Error()
	}
	return out
}

func lines(s gateway.KernelState) []string {
	return append([]string{}, strings.Split(strings.TrimSuffix(s.String(), "\n"), "\n")...)
}

// serveInspect serves the inspector's state to [Inspect] until ctx ends.
func serveInspect(i inspector) runnable {
	return serve("unix", inspectSocket, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		_ = e.Encode(inspect(i)) // an error means that the client has disconnected
	}))
}

// serve answers at an address until ctx ends. It waits until the address is free, because the previous pod of
// a DaemonSet may still use it on the node's network. If serve returned an error instead, the agent would end,
// and would not run until the kubelet restarts it.
func serve(network, address string, handler http.Handler) runnable {
	return func(ctx context.Context) error {
		l, err := new(net.ListenConfig).Listen(ctx, network, address)
		for errors.Is(err, unix.EADDRINUSE) {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(listenAgain):
			}
			l, err = new(net.ListenConfig).Listen(ctx, network, address)
		}
		if err != nil {
			return fmt.Errorf("answer at %s: %w", address, err)
		}
		server := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: handler}
		stop := context.AfterFunc(ctx, func() { _ = server.Close() })
		defer stop()
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("answer at %s: %w", address, err)
		}
		return nil
	}
}

const listenAgain = 200 * time.Millisecond

// Text is the Inspection for a person: first the differences, then the kernel's state.
func (i Inspection) Text() string {
	var b strings.Builder
	switch {
	case i.Problem != "":
		fmt.Fprintf(&b, "# %s\n", i.Problem)
	case len(i.Differences) == 0:
		b.WriteString("# the kernel is as wanted\n")
	default:
		b.WriteString("# the kernel is not as wanted:\n")
	}
	for _, d := range i.Differences {
		fmt.Fprintf(&b, "#   %s\n", d)
	}
	b.WriteString("\n")
	for _, l := range i.Found {
		b.WriteString(l + "\n")
	}
	return b.String()
}

// Inspect writes the Inspection of the agent in this network namespace, as JSON or as text.
func Inspect(ctx context.Context, out io.Writer, text bool) error {
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", inspectSocket)
	}}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent/", http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("ask the agent for its state: is it running in this pod? %w", err)
	}
	defer response.Body.Close()
	if text {
		var i Inspection
		if err := json.NewDecoder(response.Body).Decode(&i); err != nil {
			return fmt.Errorf("read the agent's state: %w", err)
		}
		_, err = io.WriteString(out, i.Text())
		return err
	}
	if _, err := io.Copy(out, response.Body); err != nil {
		return fmt.Errorf("read the agent's state: %w", err)
	}
	return nil
}
