package serve

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"go.uber.org/zap"

	"edgespan/actors/configdb"
	"edgespan/actors/controller/metrics"
	"edgespan/cmd/term"
	"edgespan/config/fleet"
	"edgespan/config/fleet/ops"
	"edgespan/config/fleet/optimize"
	"edgespan/config/httpapi/configdbapi"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/httpapi/rest"
	"edgespan/platform/conns"
	"edgespan/platform/daemon"
	"edgespan/platform/nodelink"
	"edgespan/platform/pki"
	"edgespan/pubsub/loglevel"
)

// running is a started controller, as the wiring needs it.
type running interface {
	fleetapi.Backend
	nodelink.Handler
	Done() <-chan error // the reason why it can't continue
	Alive(ctx context.Context) error
	Stop(ctx context.Context) error
	Set(s fleet.Settings)
	CountNodes() metrics.Fleet
	WaitRestartTurn(ctx context.Context) error // waits until this replica may restart
	ReleaseRestartTurn(ctx context.Context)    // reports that it has restarted and serves
	FactsEnvironment(ctx context.Context, node string) (int64, error)
	KnowsToken(hash string) bool // a join token
}

// The subsystems of the log, which each have a level (package loglevel).
const (
	logAPI   = "api"
	logFacts = "facts" // ConfigDB
	logFleet = "fleet" // the actors: nodes, rollouts, writes
	logLink  = "link"  // the streams of nodes
	logStore = "store" // the clients of etcd
	logTrace = "trace"
)

var logNames = []string{logAPI, logFacts, logFleet, logLink, logStore, logTrace}

// service is a running controller.
type service struct {
	app        *App
	o          *Options
	log        *zap.Logger
	notify     func(string)
	foundation *foundation
	issuer     issuer
	access     *access
	audit      *auditLog
	own        *selfConfig
	tracing
	fleet running
	facts *configdb.Keeper
	api   *http.Server
	nodes *nodelink.Server

	apiListener, nodeListener net.Listener
}

// serve runs a controller until ctx ends or it can't continue.
func (a *App) serve(ctx context.Context, o *Options) error {
	every := newLogger(a.Err, zap.DebugLevel)
	level := term.NewLevels(logNames, levelOf(o.V), every)
	s := &service{app: a, o: o, log: term.WithLevels(every, level), notify: daemon.Notifier(a.Env("NOTIFY_SOCKET"))}
	defer func() { _ = s.log.Sync() }() // a terminal can't be synced
	if err := s.open(ctx, level); err != nil {
		return errors.Join(err, s.close())
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx)) // ends after the components that use it
	defer stop()
	go s.own.run(work)
	if s.app.Env("GOGC") == "" {
		// Most memory holds the nodes' data, which is long-lived. Ten thousand idle nodes are calm.
		go daemon.PaceCollector(work, daemon.Pace{Calm: 50, Busy: 150, From: 2 << 20})
	}
	go daemon.ReturnMemory(work, 0)
	failed := make(chan error, 3)
	s.listen(failed)
	go func() {
		if err := watchForm(work, s.foundation.store, a.Version, s.log); err != nil {
			failed <- err
		}
	}()
	if err := s.printBootstrap(ctx); err != nil {
		return errors.Join(err, s.end(stop))
	}
	s.awaitFacts(ctx)
	s.fleet.ReleaseRestartTurn(ctx)
	s.notify("READY=1")
	s.log.Info("controller runs", zap.String("version", a.Version), zap.String("replica", s.foundation.replica),
		zap.Stringer("api", s.apiListener.Addr()), zap.String("auth", string(o.Auth)),
		zap.Stringer("nodes", s.nodeListener.Addr()))
	cause := s.waitForEnd(ctx, failed)
	s.notify("STOPPING=1")
	err := errors.Join(cause, s.end(stop))
	s.log.Info("controller stopped; its nodes keep running", zap.Error(err))
	return err
}

// open opens all resources of the controller and starts its actors.
func (s *service) open(ctx context.Context, level *loglevel.Levels) error {
	var err error
	if s.foundation, err = openFoundation(ctx, s.o, s.app.Version, s.log); err != nil {
		return err
	}
	if err := s.startTracing(); err != nil {
		return err
	}
	table, err := readActions(string(s.o.Actions))
	if err != nil {
		return err
	}
	s.own = newSelfConfig(s.app.Host, s.o, table, s.log, level)
	s.own.assign = s.assignChannels
	if s.audit, err = openAuditLog(s.foundation.dir.Path, int64(s.o.AuditMB)<<20, s.log); err != nil {
		return err
	}
	if err := s.bind(ctx); err != nil {
		return err
	}
	var mask []byte
	if s.issuer, mask, err = s.foundation.fleetCA(ctx, s.o,
		serverNames(s.o, s.apiListener.Addr(), s.nodeListener.Addr())); err != nil {
		return err
	}
	if err := keepForm(ctx, s.foundation.store, s.app.Version); err != nil {
		return err
	}
	if err := s.openAccess(); err != nil {
		return err
	}
	fleet, err := s.foundation.tree(s.o, s.issuer, mask, joinAddress(s.o, s.nodeListener.Addr()), s.own.do)
	if err != nil {
		return err
	}
	s.fleet = fleet
	s.own.flags, s.own.turn = s.applyOptions, s.fleet.WaitRestartTurn
	return s.startFacts(mask)
}

// bind listens on both addresses.
func (s *service) bind(ctx context.Context) error {
	var lc net.ListenConfig
	var err error
	if s.apiListener, err = lc.Listen(ctx, "tcp", string(s.o.Listen)); err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	if addr, ok := s.apiListener.Addr().(*net.TCPAddr); s.o.Auth == AuthNone && (!ok || !addr.IP.IsLoopback()) {
		return term.Invalid("--listen", string(s.o.Listen),
			fmt.Sprintf("a loopback address with --auth none, and is %s", s.apiListener.Addr()))
	}
	s.apiListener = conns.Limit(s.apiListener, apiBounds(int(s.o.PerAddress)))
	if s.nodeListener, err = lc.Listen(ctx, "tcp", string(s.o.NodeListen)); err != nil {
		return fmt.Errorf("--node-listen: %w", err)
	}
	return nil
}

// listen starts both servers; failed gets the error of one that ends by itself.
func (s *service) listen(failed chan<- error) {
	bodies := rest.NewBodies(configdbapi.DefaultLimits.Bytes) // of both APIs together
	answers := rest.NewAnswers(configdbapi.DefaultLimits.Answers)
	opts := []fleetapi.Option{
		rest.WithBodies(bodies), rest.WithAnswers(answers), rest.WithVersion(s.app.Version),
		fleetapi.WithTokens(pki.OperatorTokenHash), rest.WithAudit(s.audit.record), rest.WithIntents(s.audit.intent),
		fleetapi.WithAuthLimiter(s.access.limiter), fleetapi.WithWarnings(s.warnings),
		fleetapi.WithMetrics(s.metricsPage().Text), fleetapi.WithChecks(s.checks), s.observed("fleet"),
		rest.WithTracer(s.tracer), fleetapi.WithLogLevels(s.own.level),
		rest.WithFailures(func(method, path string, err error) {
			s.log.Named(logAPI).Error("request failed", zap.String("method", method), zap.String("path", path), zap.Error(err))
		}),
	}
	if s.o.Auth == AuthNone {
		opts = append(opts, fleetapi.WithNoAuth())
	}
	s.api = fleetapi.NewServer(fleetapi.Handler(s.fleet, opts...))
	s.api.ConnContext = placed
	s.serveFacts(bodies, answers)
	s.api.ErrorLog = log.New(rest.NewLines(func(line string, leftOut int) {
		s.log.Named(logAPI).Warn(line, zap.Int("left_out", leftOut))
	}), "", 0)
	s.nodes = nodelink.NewServer(nodelink.ServerOptions{
		Authority: s.issuer.authority, Handler: s.fleet, KnowsToken: s.fleet.KnowsToken, Log: s.log.Named(logLink),
		Joins: float64(s.o.Joins), PerAddress: s.o.nodesPerAddress(),
	})
	go func() {
		serve := func() error { return s.api.Serve(s.apiListener) }
		if s.o.Auth != AuthNone {
			s.api.TLSConfig = s.access.callers.TLS()
			if s.o.APITLS12 {
				s.api.TLSConfig = pki.AllowTLS12(s.api.TLSConfig)
			}
			serve = func() error { return s.api.ServeTLS(s.apiListener, "", "") }
		}
		if err := serve(); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve the API: %w", err)
		}
	}()
	go func() {
		s.awaitReady(nodesWait)
		if err := s.nodes.Serve(s.nodeListener); err != nil {
			failed <- fmt.Errorf("serve the nodes: %w", err)
		}
	}()
}

// awaitReady waits until requests can be served, for a limited time.
func (s *service) awaitReady(limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for s.fleet.Ready(ctx) != nil && ctx.Err() == nil {
		<-look.C
	}
}

// waitForEnd waits for the end.
func (s *service) waitForEnd(ctx context.Context, failed <-chan error) error {
	hup := s.app.HUP
	if hup == nil {
		own := make(chan os.Signal, 1)
		signal.Notify(own, syscall.SIGHUP)
		defer signal.Stop(own)
		hup = own
	}
	var beat <-chan time.Time
	every := watchdog(s.app.Env("WATCHDOG_USEC"))
	if every > 0 {
		t := time.NewTicker(every)
		defer t.Stop()
		beat = t.C
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hup:
			if err := s.audit.reopen(); err != nil {
				s.log.Error("rotate", zap.Error(err))
			}
			if err := s.access.reload(); err != nil {
				s.log.Error("access settings unchanged", zap.Error(err))
			}
		case <-beat:
			s.beat(ctx, every/2)
		case err := <-s.fleet.Done():
			return errors.Join(errors.New("run controller: its top actor ended"), err)
		case <-s.foundation.broken:
			return fmt.Errorf("run controller: %w", s.foundation.store.CheckWritable())
		case err := <-failed:
			return err
		}
	}
}

// watchdog returns the interval of systemd's watchdog messages: a third of its timeout.
func watchdog(usec string) time.Duration {
	n, err := strconv.ParseInt(usec, 10, 64)
	if err != nil || n <= 0 {
		return 0
	}
	return time.Duration(n) * time.Microsecond / 3
}

// beat notifies the watchdog if the actors answer in time. It does not query the store: a restart would not repair
// that, and nodes are served without it.
func (s *service) beat(ctx context.Context, within time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := s.fleet.Alive(ctx); !errors.Is(err, context.DeadlineExceeded) {
		s.notify("WATCHDOG=1")
		return
	}
	s.log.Error("actors do not answer: systemd will stop the process unless they recover", zap.Duration("within", within))
}

// end closes the connections, then stops what they used.
func (s *service) end(stop context.CancelFunc) error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	s.nodes.Drain(ctx)
	err := s.api.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.api.Close()
	}
	stop()
	return errors.Join(err, s.close())
}

// close closes all resources in reverse order.
func (s *service) close() error {
	var faults []error
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if s.facts != nil {
		faults = append(faults, s.facts.Stop(ctx))
	}
	if s.fleet != nil {
		faults = append(faults, s.fleet.Stop(ctx))
	}
	for _, l := range []net.Listener{s.apiListener, s.nodeListener} {
		if l == nil {
			continue
		}
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			faults = append(faults, err)
		}
	}
	s.tracing.stop()
	if s.audit != nil {
		faults = append(faults, s.audit.close())
	}
	if s.foundation != nil {
		faults = append(faults, s.foundation.close())
	}
	return errors.Join(faults...)
}

// applyOptions passes changed flags to the actors.
func (s *service) applyOptions(o *Options) {
	s.fleet.Set(o.settings(s.foundation.replica))
}

// itself is the controller as the author of a write.
var itself = fleetapi.Caller{Name: "controller", Role: fleetapi.Admin}

// assignChannels assigns the channels that are enabled now to all links.
func (s *service) assignChannels(ctx context.Context) error {
	_, err := s.fleet.Write(ctx, fleetapi.WriteRequest{
		Caller: itself, Write: ops.Optimize{Kinds: []optimize.Kind{optimize.Channel}}, Message: "UPDATE_CHANNEL_ASSIGNMENT",
	})
	return err
}
