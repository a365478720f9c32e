package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A slow API server takes minutes for an installation. Whoever ends the run waits 10 s at most.
func TestApplyingHasNoBoundUntilItIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, stop := context.WithCancel(t.Context())
		ctx, cancel := finishing(run)
		defer cancel()
		time.Sleep(time.Hour)
		if ctx.Err() != nil {
			t.Fatal("it ends by itself")
		}
		stop()
		stopped := time.Now()
		<-ctx.Done()
		if waited := time.Since(stopped); waited != finishTimeout {
			t.Errorf("it ends after %s, want %s", waited, finishTimeout)
		}
	})
}
