package kube

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/liqo-tui/liqo-tui/internal/sleep"
)

// pulse checks at intervals that the API server answers. Watches don't show that packets get lost: client-go
// closes such a connection only after 45 s.
type pulse struct {
	ask    func(context.Context) error
	notify func()
	within time.Duration // for the answer; 0: no limit

	mu  sync.Mutex
	err error // the error of the last request; nil if it was answered
}

const (
	pulseInterval = 5 * time.Second
	pulseTimeout  = 5 * time.Second
	pulseAgain    = time.Second // while there is no answer
)

func (c *Cluster) askVersion(ctx context.Context) error {
	_, err := c.discovery.ServerVersionWithContext(ctx)
	return err
}

func (p *pulse) run(ctx context.Context) {
	next := pulseInterval
	for sleep.For(ctx, next) {
		asking, cancel := context.WithCancel(ctx)
		if p.within > 0 {
			asking, cancel = context.WithTimeout(ctx, p.within)
		}
		err := p.ask(asking)
		cancel()
		var answer apierrors.APIStatus
		if errors.As(err, &answer) {
			err = nil // the API server answers; other requests show whether it accepts us
		}
		if next = pulseInterval; err != nil {
			next = pulseAgain
		}
		p.mu.Lock()
		news := (err == nil) != (p.err == nil)
		p.err = err
		p.mu.Unlock()
		if news && ctx.Err() == nil {
			p.notify()
		}
	}
}

// failing returns the reason that the last request was not answered; nil if it was answered.
func (p *pulse) failing() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}
