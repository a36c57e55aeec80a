package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"edgespan/actors/controller"
	"edgespan/actors/controller/metrics"
	"edgespan/actors/controller/storage"
	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/controllerconf"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/rest"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/schema"
	"edgespan/platform/confdir"
	"edgespan/platform/datadir"
	"edgespan/platform/pki"
	"edgespan/platform/store/backend"
	"edgespan/platform/store/bolt"
	"edgespan/platform/store/etcd"
	"edgespan/pubsub/ratelimit"
	"edgespan/pubsub/trace"
)

// Time limits of a start and an end.
const (
	storeTimeout = 20 * time.Second // until a cluster answers
	readyTimeout = 60 * time.Second // until the controller has read the store
	drainTimeout = 10 * time.Second // until nodes are informed and requests answered
	// nodesWait is how long nodes wait for a controller that reads its store: thousands of handshakes would take the
	// processor that it needs for that. Their connections wait in the listener's queue.
	nodesWait = 5 * time.Second
)

// foundation is a controller's data folder, store and name.
type foundation struct {
	log     *zap.Logger
	dir     *datadir.Dir
	store   backend.Store
	broken  <-chan struct{} // closed when the store must be reopened; nil: never
	replica string
	version string             // of this program
	stored  *ratelimit.Buckets // limits how much callers of both APIs store
	work    *metrics.Work
	tracer  *trace.Tracer // nil: no traces
}

// openFoundation opens the data folder and the store, and applies the flags of the stored config to o.
func openFoundation(ctx context.Context, o *Options, version string, log *zap.Logger) (*foundation, error) {
	g := &foundation{log: log, version: version, stored: rest.NewStored(), work: metrics.NewWork()}
	var err error
	if g.dir, err = datadir.Open(string(o.DataDir)); err != nil {
		return nil, err
	}
	if g.replica, err = g.dir.Replica(string(o.Replica)); err != nil {
		return nil, errors.Join(err, g.close())
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if g.store, err = o.openStore(ctx, log.Named(logStore)); err != nil {
		return nil, errors.Join(err, g.close())
	}
	if s, ok := g.store.(interface{ Broken() <-chan struct{} }); ok {
		g.broken = s.Broken()
	}
	g.store = measured{g.store, g.work}
	err = checkRestored(ctx, g.store)
	if err == nil {
		_, _, _, err = readForm(ctx, g.store, version)
	}
	var doc config.Object
	if err == nil {
		doc, err = g.config(ctx)
	}
	if err == nil {
		logLeftOut(log, o.fromConfig(doc))
	}
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

// OpenStore opens the store for a command. The errors name the cause.
func (o *Options) OpenStore(ctx context.Context) (backend.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return o.openStore(ctx, nil)
}

// StoreFile returns the path of the embedded store.
func (o *Options) StoreFile() string { return filepath.Join(string(o.DataDir), "store.db") }

func (o *Options) openStore(ctx context.Context, log *zap.Logger) (backend.Store, error) {
	if len(o.Etcd) == 0 {
		s, err := bolt.Open(o.StoreFile(), bolt.Options{Told: func(err error) { reportStore(log, err) }})
		if err != nil {
			return nil, err // not a nil pointer in an interface
		}
		return s, nil
	}
	tls, err := pki.ClientFiles{CA: string(o.EtcdCA), Cert: string(o.EtcdCert), Key: string(o.EtcdKey)}.TLS()
	if err != nil {
		return nil, term.WithClass(term.ExitNotFound, err)
	}
	opts := etcd.Options{Endpoints: o.Etcd, Fleet: string(o.Fleet), TLS: tls, Username: string(o.EtcdUser), Log: log}
	if o.EtcdPasswordFile != "" {
		text, err := os.ReadFile(string(o.EtcdPasswordFile))
		if err != nil {
			return nil, term.WithClass(term.ExitNotFound, fmt.Errorf("read etcd password: %w", err))
		}
		opts.Password = strings.TrimSpace(string(text))
	}
	s, err := etcd.Open(ctx, opts)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// reportStore logs when the store refuses writes, and when it accepts them again.
func reportStore(log *zap.Logger, err error) {
	switch {
	case log == nil: // a command returns the error itself
	case err != nil:
		log.Error("store refuses writes; nodes keep running and reads are served", zap.Error(err))
	default:
		log.Info("store accepts writes again")
	}
}

// config returns the controller's config as this replica has it.
func (g *foundation) config(ctx context.Context) (config.Object, error) {
	state, err := history.Head(backend.NewReader(ctx, g.store))
	if err != nil {
		return nil, fmt.Errorf("read the controller's config: %w", err)
	}
	own, err := ownMetadata()
	if err != nil {
		return nil, err
	}
	doc, err := (&ops.Snapshot{State: state, E2E: own}).File(controllerFile, g.replica, true)
	if err != nil {
		return nil, fmt.Errorf("read the controller's config: %w", err)
	}
	return doc.Object, nil
}

const controllerFile = "controller"

func (g *foundation) close() error {
	var err error
	if g.store != nil {
		err = g.store.Close()
	}
	return errors.Join(err, g.dir.Close())
}

// fleetCA returns the CA of the fleet, and the key of its masked digests.
func (g *foundation) fleetCA(ctx context.Context, o *Options, names []string) (issuer, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	i := issuer{revoked: &pki.Revocations{}}
	var mask []byte
	var err error
	opts := o.pki(names, i.revoked)
	opts.APIFault = func(err error) {
		if err != nil {
			g.log.Error("--api-cert cannot be read: serving the last valid one, or the controller's own",
				zap.Error(err))
		} else {
			g.log.Info("serving --api-cert")
		}
	}
	i.authority, mask, err = found(ctx, g.store, g.dir, opts)
	return i, mask, err
}

// tree starts the actors on the foundation. If do is nil, they serve no nodes, and a write has no effects.
func (g *foundation) tree(o *Options, i issuer, mask []byte, nodeLink string,
	do func(controllerconf.Change)) (*controller.Controller, error) {
	base := confdir.NewStack(schema.NodeBases(), string(o.BaseDir))
	hidden, err := base.Hidden()
	if err != nil {
		return nil, term.WithClass(term.ExitNotFound, err)
	}
	for _, name := range hidden {
		g.log.Warn("a base layer of the folder is hidden by the embedded one", zap.String("name", name),
			zap.Stringer("base_dir", &o.BaseDir))
	}
	nodes, err := NodeMetadata(o.Metadata, g.log)
	if err != nil {
		return nil, err
	}
	own, err := ownMetadata()
	if err != nil {
		return nil, err
	}
	return controller.Start(controller.Options{
		Store: g.store, Work: g.work, Elector: elector, Replica: g.replica, Log: g.log.Named(logFleet),
		Tracer: g.tracer, Base: base, Metadata: nodes,
		E2E: own, Issuer: i,
		Own: o.validateChange, Settings: o.settings(g.replica), MaskKey: mask, NodeLink: nodeLink, Stored: g.stored, Do: do,
		Offline: do == nil,
		Shared:  len(o.Etcd) > 0,
		Flags:   o.rolloutFlags(),
		Backup:  func(ctx context.Context) (string, error) { return g.backUpBeforeMigration(ctx, time.Now()) },
	})
}

// rolloutFlags returns the flags of staged rollouts that were given to this process.
func (o *Options) rolloutFlags() map[string]string {
	out := map[string]string{}
	for _, s := range o.table {
		if o.given[s.name] && (strings.HasPrefix(s.name, "config-rollout-") ||
			s.name == "config-staged-rollout-enabled" || s.name == "config-batch-timeout-s") {
			out[strings.ReplaceAll(s.name, "-", "_")] = s.value.String()
		}
	}
	return out
}

// ownMetadata returns the metadata of the controller's and the aggregator's config.
func ownMetadata() (map[string]*metadata.Metadata, error) {
	own := map[string]*metadata.Metadata{}
	for file, doc := range map[string]config.Object{controllerFile: schema.ControllerMetadata(),
		"aggregator": schema.AggregatorMetadata()} {
		m, faults := metadata.Parse(doc, metadata.Options{E2E: true})
		if faults != nil {
			return nil, fmt.Errorf("read embedded metadata of the %s: %w", file, faults)
		}
		own[file] = m
	}
	return own, nil
}

// settings returns the options as settings of config/fleet.
func (o *Options) settings(replica string) fleet.Settings {
	s := fleet.Defaults(replica)
	s.Interval, s.Confirm, s.Queries = max(o.ReconfigDelay.duration(), time.Millisecond),
		max(o.ConfirmTime.duration(), time.Second), bool(o.UnknownHW)
	s.Board, s.Preview = max(o.BoardDelay.duration(), time.Millisecond), max(o.ActionsTime.duration(), time.Second)
	return s
}

func (n seconds) duration() time.Duration { return time.Duration(n.number) * time.Second }

// NodeMetadata returns the embedded metadata of the nodes' config, extended by files. It drops and logs conflicting
// entries.
func NodeMetadata(files []string, log *zap.Logger) (*metadata.Metadata, error) {
	m, faults := metadata.Parse(schema.NodeMetadata(), metadata.Options{})
	if faults != nil {
		return nil, fmt.Errorf("read embedded metadata: %w", faults)
	}
	for _, file := range files {
		doc, err := confdir.ReadObject(file)
		if err != nil {
			return nil, term.Missing(err)
		}
		reported := len(m.Warnings())
		merged, conflicts, faults := m.Merge(doc)
		if faults != nil {
			return nil, &confdir.Broken{File: file, Faults: faults}
		}
		m = merged
		for _, c := range append(conflicts, m.Warnings()[reported:]...) {
			log.Warn("metadata", zap.String("file", file), zap.Error(c))
		}
	}
	return m, nil
}

// serverNames returns the names in the certificate of a controller: the given ones, those of its addresses, and the
// machine's.
func serverNames(o *Options, listen, nodeListen net.Addr) []string {
	names := append([]string{}, o.NodeHost...)
	add := func(name string) {
		for _, n := range names {
			if n == name {
				return
			}
		}
		if name != "" {
			names = append(names, name)
		}
	}
	for _, addr := range []string{string(o.Listen), string(o.NodeListen), addressOf(listen), addressOf(nodeListen)} {
		host, _, err := net.SplitHostPort(addr)
		if ip := net.ParseIP(host); err == nil && (ip == nil || !ip.IsUnspecified()) {
			add(host)
		}
	}
	if host, err := os.Hostname(); err == nil {
		add(host)
	}
	for _, own := range []string{"localhost", "127.0.0.1", "::1"} {
		add(own)
	}
	return names
}

func addressOf(a net.Addr) string {
	if a == nil {
		return ""
	}
	return a.String()
}

// joinAddress returns the address that nodes connect to.
func joinAddress(o *Options, nodeListen net.Addr) string {
	host, port, err := net.SplitHostPort(addressOf(nodeListen))
	if err != nil {
		if host, port, err = net.SplitHostPort(string(o.NodeListen)); err != nil {
			return ""
		}
	}
	ip := net.ParseIP(host)
	switch name, err := os.Hostname(); {
	case len(o.NodeHost) > 0:
		host = o.NodeHost[0]
	case (ip == nil || ip.IsUnspecified()) && err == nil:
		host = name
	}
	return net.JoinHostPort(host, port)
}

// elector returns the store's election for the controller.
func elector(s storage.Store) storage.Elect { return backend.Elector(s) }
