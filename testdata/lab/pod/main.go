// Command pod is the program in the lab's only image, lab.local/pod:v1. It is the
// sandbox ("pause") process, and the server and the client of the lab's tests:
//
//	pod                              wait for a signal, reap orphans (the sandbox of every pod)
//	pod serve [--port 8080]          answer every HTTP request with a JSON object, see reply,
//	                                 and with as many zeros behind it as the query "bytes" says
//	                                 The UDP port of the same number returns what it gets
//	pod stream HOST:PORT [--size 8]  send a datagram of so many bytes there every 10 ms until its
//	                                 standard input ends, and say when answers began to be
//	                                 missed and came again, see stall
//	pod requests TARGET...           ask each target, http://HOST:PORT/ or udp://HOST:PORT, every 50 ms
//	                                 until its standard input ends, and count what was not answered, see outcome
//	pod get URL [--timeout 3s]       print the body of URL; exit status 1 if that did not work.
//	                                 --times N asks N times on one connection, every 100 ms, and
//	                                 --from-port P makes that connection from port P
//	pod watch URL                    ask URL every 10 ms until its standard input ends, and print when another server
//	                                 begins to answer, see turn
//	pod scan --ports P,P PREFIX...   print the TCP ports that are open in the networks, each waited for --timeout 500ms
//
// It uses only the standard library, so that it can be linked statically and the
// image has only one file.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

const usage = "usage: pod | pod scan --ports P,P... [--timeout 500ms] PREFIX... | pod stream HOST:PORT [--size 8] [--interval 10ms] | pod requests [--interval 50ms] [--timeout 1m] TARGET... | pod serve [--port 8080] | pod get URL [--timeout 3s] [--times 1] [--from-port P] | pod watch URL [--interval 10ms] [--timeout 2s]"

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "pod:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) == 0 {
		pause()
		return nil
	}
	switch args[0] {
	case "serve":
		return serve(args[1:])
	case "stream":
		return stream(args[1:], os.Stdin, out)
	case "requests":
		return requests(args[1:], os.Stdin, out)
	case "get":
		return get(args[1:], out)
	case "watch":
		return watch(args[1:], os.Stdin, out)
	case "scan":
		return scan(args[1:], out)
	}
	return fmt.Errorf("unknown command %q\n%s", args[0], usage)
}

// pause returns on SIGINT or SIGTERM. Until then it reaps children, because with
// shareProcessNamespace it is the parent of every orphan of the pod.
func pause() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if pid <= 0 && !errors.Is(err, syscall.EINTR) {
				break
			}
		}
	}
}

// reply is the answer of serve to a request. Client is the remote address as this
// pod sees it, and so shows address translation on the path.
type reply struct {
	Hostname string `json:"hostname"`
	Client   string `json:"client"`
	Path     string `json:"path"`
}

func serve(args []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	port := flags.Uint("port", 8080, "TCP port")
	if err := flags.Parse(args); err != nil {
		return err
	}
	hostname, err := os.Hostname()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	server := &http.Server{
		Addr:              net.JoinHostPort("", strconv.FormatUint(uint64(*port), 10)),
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			// If the client is gone, nobody needs the error.
			_ = json.NewEncoder(w).Encode(reply{Hostname: hostname, Client: r.RemoteAddr, Path: r.URL.Path})
			if n, err := strconv.ParseInt(r.URL.Query().Get("bytes"), 10, 64); err == nil {
				_, _ = io.CopyN(w, zeros{}, n)
			}
		}),
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	echo, err := net.ListenUDP("udp4", &net.UDPAddr{Port: int(*port)})
	if err != nil {
		return err
	}
	go func() {
		buffer := make([]byte, 2048)
		for {
			n, from, err := echo.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			_, _ = echo.WriteToUDPAddrPort(buffer[:n], from) // may be lost, like any datagram
		}
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// get accepts its flag before or after the URL, because users often type it last.
func get(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("get", flag.ContinueOnError)
	timeout := flags.Duration("timeout", 3*time.Second, "of a request")
	times := flags.Int("times", 1, "how often to ask, on one connection")
	port := flags.Int("from-port", 0, "own port; 0 is any")
	if err := flags.Parse(args); err != nil {
		return err
	}
	url := flags.Arg(0)
	if flags.NArg() > 1 {
		if err := flags.Parse(flags.Args()[1:]); err != nil {
			return err
		}
		if flags.NArg() > 0 {
			return errors.New(usage)
		}
	}
	if url == "" {
		return errors.New(usage)
	}
	dialer := &net.Dialer{Timeout: *timeout, LocalAddr: &net.TCPAddr{Port: *port}}
	// Every call is a new connection, so a test sees the present path.
	client := &http.Client{Timeout: *timeout, Transport: &http.Transport{DialContext: dialer.DialContext, MaxConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	for i := range *times {
		if i > 0 {
			time.Sleep(interval)
		}
		if err := ask(client, url, out); err != nil {
			return err
		}
	}
	return nil
}

// interval is the time between two requests on one connection.
const interval = 100 * time.Millisecond

func ask(client *http.Client, url string, out io.Writer) error {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(out, response.Body); err != nil {
		return fmt.Errorf("read %s: %w", url, err)
	}
	if response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("get %s: %s", url, response.Status)
	}
	return nil
}
