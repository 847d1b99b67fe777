package serve

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// cutError is that not everything was finished at the end.
type cutError struct {
	n   int
	why string
}

func (e cutError) Error() string {
	if e.n == 1 {
		return e.why + ": 1 request was cut off"
	}
	return fmt.Sprintf("%s: %d requests were cut off", e.why, e.n)
}

// drain ends the program in order, as a signal wants. A second signal ends it at once.
func (p *program) drain(first os.Signal, signals <-chan os.Signal) error {
	p.draining.Store(true)
	p.log.Info("draining", "signal", first.String(), "in_flight", p.proxy.InFlight())
	notify(p.log, "STOPPING=1")
	c := p.reloader.Status().Config
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	go func() {
		for {
			select {
			case s := <-signals:
				if s != syscall.SIGHUP {
					stop(fmt.Errorf("a second signal (%v)", s))
				}
			case <-ctx.Done():
				return
			}
		}
	}()

	select {
	case <-time.After(max(c.Shutdown.Wait, 0)):
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeoutCause(ctx, c.Shutdown.Grace, fmt.Errorf("shutdown.grace (%v) is over", c.Shutdown.Grace))
	defer cancel()
	p.log.Info("accepting no more", "in_flight", p.proxy.InFlight(), "grace", c.Shutdown.Grace)
	_ = p.server.Shutdown(grace) // what it says is what the count says
	p.finish(grace)

	cut := p.proxy.InFlight()
	_ = p.server.Close()
	if cut > 0 { // so that what was cut off still gets its line in the access log
		soon, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		p.finish(soon)
		cancel()
	}
	p.closeAdmin(ctx)
	// A reload may still wait for a file that cannot be opened: now a signal kills.
	signal.Reset(syscall.SIGINT, syscall.SIGTERM)
	if cut > 0 {
		return cutError{cut, context.Cause(grace).Error()}
	}
	p.log.Info("done, nothing was cut off")
	return nil
}

// finish waits for what [http.Server.Shutdown] does not: upgraded connections.
func (p *program) finish(ctx context.Context) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for p.proxy.InFlight() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (p *program) closeAdmin(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = p.adminServer.Shutdown(ctx) // streams end by themselves; others have had their time
	_ = p.adminServer.Close()
}
