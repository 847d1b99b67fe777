package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/accesslog"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/proxy"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/reload"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
	"github.com/fusebox-go/fusebox/fuseboxadmin/page"
	"github.com/fusebox-go/fusebox/fuseboxprom"
)

// options are what the command line says.
type options struct {
	file   string
	env    []string
	flags  []config.Flag
	stderr io.Writer

	// anyPort are settings, listen and admin.listen, whose address may be
	// replaced by a free one where it is in use.
	anyPort map[string]bool

	// started, if not nil, is called when everything serves; the context ends
	// when the program begins to. It is waited for.
	started func(ctx context.Context, proxy, admin net.Addr)
}

// onlyAtStart are the settings that hold until a restart.
func onlyAtStart() []string {
	return []string{"listen", "admin.listen", "admin.hosts", "logging.format"}
}

// program is a running proxy with all that belongs to it.
type program struct {
	o        options
	log      *slog.Logger
	level    slog.LevelVar
	access   atomic.Pointer[accesslog.Log] // in use; nil: none
	logs     map[string]*accesslog.Log     // every one opened, by target; the goroutine of reloads alone adds to it
	logsMu   sync.Mutex                    // for that, and for others who read it
	proxy    *proxy.Proxy
	api      *fuseboxadmin.Handler
	reloader *reload.Reloader
	draining atomic.Bool
	token    atomic.Value // config.Secret

	listener, adminListener net.Listener // adminListener may be nil
	server, adminServer     *http.Server
}

// gcPercent makes the garbage collector run less often: what a proxy keeps is
// small, and what each request leaves behind is much of its CPU time.
const gcPercent = 300

// run runs the program until a signal ends it. The error is one of the
// configuration (config.Errors), of the start, or says what was cut at the end.
func run(o options) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	// Whoever reads the logs may go; the proxy does not go with them.
	signal.Ignore(syscall.SIGPIPE)
	defer signal.Reset(syscall.SIGPIPE)

	c, err := load(o, signals)
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" { // that is read by the runtime itself
		debug.SetGCPercent(gcPercent)
	}
	p := &program{o: o, logs: map[string]*accesslog.Log{}}
	p.setLevel(c)
	p.log = p.logger(c, &p.level)
	for _, warning := range c.Warnings {
		p.log.Warn(warning)
	}
	defer p.close()
	if err := p.bind(c); err != nil {
		return err
	}
	if err := p.build(c); err != nil {
		return err
	}
	return p.serve(c, signals)
}

// load reads the configuration. A signal ends it: where the file is a pipe it may
// have to be waited for.
func load(o options, signals <-chan os.Signal) (*config.Config, error) {
	var c *config.Config
	var err error
	done := make(chan struct{})
	go func() {
		c, err = config.Load(o.file, o.env, o.flags)
		close(done)
	}()
	for {
		select {
		case <-done:
			if err != nil {
				return nil, &usageError{err}
			}
			return c, nil
		case s := <-signals:
			if s != syscall.SIGHUP { // it is being read
				return nil, fmt.Errorf("ended by a signal (%v) before the configuration was read", s)
			}
		}
	}
}

func (p *program) logger(c *config.Config, level slog.Leveler) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if c.Logging.Format == "json" {
		return slog.New(slog.NewJSONHandler(p.o.stderr, o))
	}
	return slog.New(slog.NewTextHandler(p.o.stderr, o))
}

func (p *program) setLevel(c *config.Config) {
	var l slog.Level
	if l.UnmarshalText([]byte(c.Logging.Level)) == nil {
		p.level.Set(l)
	}
}

// bind takes all addresses: what cannot be bound is found before anything serves.
func (p *program) bind(c *config.Config) (err error) {
	if p.listener, err = p.bindOne("listen", "--listen", c.Listen); err != nil || c.Admin.Listen == "" {
		return err
	}
	if p.adminListener, err = p.bindOne("admin.listen", "--admin", c.Admin.Listen); err != nil {
		return err
	}
	return shield(p.adminListener)
}

func (p *program) bindOne(setting, flag string, a config.Address) (net.Listener, error) {
	ctx := context.Background()
	l, err := listen(ctx, setting, flag, a)
	if p.o.anyPort[setting] && errors.Is(err, syscall.EADDRINUSE) {
		if l, err = listen(ctx, setting, flag, "127.0.0.1:0"); err == nil {
			fmt.Fprintf(p.o.stderr, "%s is in use: %s stands in for it\n", a, l.Addr())
		}
	}
	return l, err
}

// build makes what stands behind the listeners.
func (p *program) build(c *config.Config) error {
	access, err := p.openAccess(c)
	if err != nil {
		return err
	}
	p.access.Store(access)
	registry := prometheus.NewRegistry()
	metrics, err := fuseboxprom.Register(registry)
	if err != nil {
		return err
	}
	p.token.Store(c.Admin.Token)
	p.api = &fuseboxadmin.Handler{
		TokenFunc:   func() string { return string(p.token.Load().(config.Secret)) },
		Trusted:     fuseboxadmin.OnUnixSocket,
		Hosts:       hosts(c),
		TokenHelp:   tokenHelp,
		HostHelp:    hostHelp,
		Fallbacks:   fallbacks(&metrics.Set),
		FallbacksOf: fallbacksOf(&metrics.Set),
		Logger:      p.logger(c, slog.LevelInfo), // an audit has no gaps, whatever else is logged
	}
	p.proxy, err = proxy.New(c, proxy.Options{Admin: p.api, Metrics: &metrics.Set, Access: access, Logger: p.log})
	if err != nil {
		return &usageError{err}
	}
	p.reloader = reload.New(c, reload.Options{
		Path: p.o.file, Env: p.o.env, Flags: p.o.flags, Apply: p.apply, Restart: onlyAtStart(), Told: p.told, Logger: p.log,
	})
	if err := registerOwn(registry, p.reloader.Status, p.proxy.InFlight, p.dropped); err != nil {
		return err
	}
	p.server = proxyServer(p.proxy, &p.draining, p.log)
	p.adminServer = adminServer(&admin{
		api: p.api, page: page.Handler(nil), metrics: metricsHandler(registry, p.log), reloader: p.reloader,
		file: p.o.file, draining: &p.draining, log: p.log,
	}, p.log)
	p.adminServer.RegisterOnShutdown(p.api.Close)
	return nil
}

// hosts are the names that the admin listener may be called by.
func hosts(c *config.Config) (names []string) {
	for _, h := range c.Admin.Hosts {
		names = append(names, string(h))
	}
	return names
}

// apply puts a new configuration into effect, on the goroutine of reloads.
func (p *program) apply(_, after *config.Config) error {
	access, err := p.openAccess(after)
	if err != nil {
		return err
	}
	if err := p.proxy.Apply(after); err != nil {
		return err
	}
	if p.access.Swap(access) != access {
		p.proxy.SetAccess(access)
	}
	p.setLevel(after)
	p.token.Store(after.Admin.Token)
	return nil
}

// told makes a reload an event of the admin API.
func (p *program) told(cause string, r reload.Result) {
	e := reloadEvent{Cause: cause, Success: r.Err == nil, Changes: reload.Describe(r.Changes), Restart: r.Restart}
	if r.Err != nil {
		const most = 20 // an event has a size
		e.Changes, e.Errors = "", configErrors(r.Err)
		e.Errors = e.Errors[:min(len(e.Errors), most)]
	}
	if err := p.api.Publish("reload", e); err != nil {
		p.log.Debug("a reload is no event", "error", err)
	}
}

// openAccess returns the access log; nil: there is none. One that was replaced
// stays open: requests in flight write to it, and it may be wanted again.
func (p *program) openAccess(c *config.Config) (*accesslog.Log, error) {
	target := c.Logging.Access
	switch l := p.logs[target]; {
	case target == "" || l != nil && l == p.access.Load():
		return l, nil
	case l != nil: // its file may have been renamed since it was in use
		if err := l.Reopen(); err != nil {
			return nil, fmt.Errorf("logging.access: %w", err)
		}
		return l, nil
	}
	l, err := accesslog.Open(target)
	if err != nil {
		return nil, fmt.Errorf("logging.access: %w", err)
	}
	p.logsMu.Lock()
	defer p.logsMu.Unlock()
	p.logs[target] = l
	return l, nil
}

// dropped returns how many lines of access logs could not be written, so far.
func (p *program) dropped() (n uint64) {
	p.logsMu.Lock()
	defer p.logsMu.Unlock()
	for _, l := range p.logs {
		n += l.Dropped()
	}
	return n
}

// serve serves until a signal comes or a listener breaks, and drains.
func (p *program) serve(c *config.Config, signals <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(context.Background())
	var background sync.WaitGroup
	defer background.Wait()
	defer cancel()

	broken := make(chan error, 2)
	start := func(s *http.Server, l net.Listener) {
		background.Go(func() {
			if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				broken <- fmt.Errorf("%s does not accept any more: %w", l.Addr(), err)
			}
		})
	}
	start(p.server, p.listener)
	p.log.Info("the proxy listens", "address", addressOf(p.listener.Addr()))
	var adminAddr net.Addr
	if p.adminListener != nil {
		start(p.adminServer, p.adminListener)
		adminAddr = p.adminListener.Addr()
		p.log.Info("the admin listener listens", "address", addressOf(adminAddr))
		if !c.Admin.Listen.Loopback() && c.Admin.Token == "" {
			p.log.Warn("the admin listener can be reached from other machines and has no token: it serves reads only", "address", addressOf(adminAddr))
		}
	}
	background.Go(func() { p.reloader.Run(ctx) })
	background.Go(func() { p.sample(ctx) })
	if p.o.started != nil {
		background.Go(func() { p.o.started(ctx, p.listener.Addr(), adminAddr) })
	}
	notify(p.log, "READY=1")

	for {
		select {
		case s := <-signals:
			if s == syscall.SIGHUP {
				background.Go(func() { p.hangUp(ctx) })
				continue
			}
			cancel()
			return p.drain(s, signals)
		case err := <-broken:
			return errors.Join(err, p.server.Close(), p.adminServer.Close())
		}
	}
}

// sample has the admin API take samples also while nobody looks.
func (p *program) sample(ctx context.Context) {
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.api.Sample()
		case <-ctx.Done():
			return
		}
	}
}

// hangUp is what SIGHUP asks for: new files for old ones.
func (p *program) hangUp(ctx context.Context) {
	notify(p.log, "RELOADING=1")
	if l := p.access.Load(); l != nil {
		if err := l.Reopen(); err != nil {
			p.log.Error("the access log cannot be opened again, and goes on as it was", "error", err)
		}
	}
	p.reloader.Reload(ctx, "SIGHUP")
	notify(p.log, "READY=1")
}

// close frees what is left, however far the start came.
func (p *program) close() {
	for _, l := range []net.Listener{p.listener, p.adminListener} {
		if l != nil {
			_ = l.Close()
		}
	}
	if p.proxy != nil {
		p.proxy.Close()
	}
	if p.api != nil {
		p.api.Close()
	}
	for _, l := range p.logs {
		_ = l.Close()
	}
}

// addressOf writes an address as the configuration has it.
func addressOf(a net.Addr) string {
	if a.Network() == "unix" {
		return "unix:" + a.String()
	}
	return a.String()
}
