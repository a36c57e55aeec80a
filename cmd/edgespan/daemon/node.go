package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/config/httpapi/metrics"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/config/nodeconf/action"
	"edgespan/platform/daemon"
	"edgespan/platform/otlp"
	"edgespan/pubsub/loglevel"
	"edgespan/pubsub/shellproto"
)

// Two locks allow one daemon per network namespace: a file of the lock folder, and the abstract socket that older
// releases used (docs/architecture.md, law 5).
const (
	nodeLock    = "@edgespan-node"
	nodeLockDir = "/run/edgespan"
)

// nodeOptions are the paths and settings of a daemon.
type nodeOptions struct {
	Config   string // the node's config file
	StateDir string // survives a reboot: journal, last good config
	RunDir   string // may be lost at a reboot: conf files, control socket
	Socket   string
	Version  string
	Level    *loglevel.Levels // of the log
	About    aboutFiles
	Metrics  string // address that serves metrics, or ""
	Trace    otlp.Options
	Traces   *otlp.Config // from Trace and the environment; nil for no traces
	Strict   bool         // damage in the state folder is an error
	// AllowFaults lets debug shells inject faults.
	AllowFaults bool
	Warning     string // a warning from before the start, or ""
	// ResolverRoot replaces "/" in tests and in the demo: the daemon looks for DNS servers in other programs' files below
	// it.
	ResolverRoot string
	// Record is the folder of a recording, "" for none, and RecordSize how much of the disk it takes, in MiB.
	Record     string
	RecordSize int
	// KeyLife is the life of the node's key for encrypted clusters; 0: it is never replaced.
	KeyLife time.Duration
}

// aboutFiles are the files that describe the node; "" is none.
type aboutFiles struct {
	Version, Firmware string // the first line is the version string
	Info              string // KEY=value lines: HW_BOARD_ID
	Metadata          string // a vendor's, merged with the embedded
	BaseDir           string // a vendor's, in addition to the embedded
	Actions           string // the commands of post-config actions
}

// runningNode is a started node, as `node` needs it.
type runningNode interface {
	nodeapi.Backend
	// Shell returns what answers debug shells.
	Shell(levels *loglevel.Levels) shellproto.Node
	// Scrape adds the node's metrics.
	Scrape(version string, to *metrics.Scrape)
	// Reload rereads the config file (SIGHUP).
	Reload()
	// Done receives the cause once the top actor has ended by itself.
	Done() <-chan error
	// Stop ends the actors and leaves the data plane running.
	Stop(ctx context.Context) error
}

// startFunc connects platform and actors and starts them.
type startFunc func(ctx context.Context, o nodeOptions, log *zap.Logger) (runningNode, error)

// program runs the command `node`.
type program struct {
	*reach.App
	start   startFunc    // starts the node
	again   func() error // executes the program again in this process
	lock    string       // the abstract socket that excludes a second daemon
	lockDir string       // the folder of the lock file
	version string
}

// New returns the command `node`.
func New(a *reach.App, version string) *cobra.Command {
	return newNode(a, program{start: startNode, again: startAgain, lock: nodeLock, lockDir: nodeLockDir, version: version})
}

func newNode(with *reach.App, a program) *cobra.Command {
	a.App = with
	var o nodeOptions
	var life string
	cmd := &cobra.Command{
		Use:     "node",
		Short:   "Run the daemon in the foreground, in the current network namespace",
		Example: "  edgespan node --config /etc/edgespan/node.yaml",
		Long: `node runs the networks of this network namespace as the config describes them.

Once edgespan join has made it part of a fleet, it keeps a stream to its controller, which manages
its config if sysParams.managedConfig is true. Without a controller it keeps working.

SIGHUP re-reads the config file. SIGTERM and SIGINT end the daemon and leave the networks running;
only applying a config without them removes them.

The subcommands read and change the overrides of single nodes on a controller.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return term.UnknownCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Config = a.Setting(o.Config, "EDGESPAN_CONFIG", reach.DefaultConfig)
			o.StateDir = a.Setting(o.StateDir, "EDGESPAN_STATE_DIR", reach.DefaultStateDir)
			o.RunDir, o.Socket, o.Version = a.RunFolder(), a.SocketPath(), a.version
			o.About = o.About.withDefaults("")
			var err error
			if o.KeyLife, err = parseKeyLife(a.Setting(life, "EDGESPAN_CLUSTER_KEY_LIFE", "")); err != nil {
				return term.Usagef("%w", err)
			}
			o.Record = a.Setting(o.Record, "EDGESPAN_RECORD", "")
			if err := o.makeAbsolute(); err != nil {
				return err
			}
			if err := o.checkRecording(); err != nil {
				return term.Usagef("%w", err)
			}
			if o.Metrics = a.Setting(o.Metrics, "EDGESPAN_METRICS", ""); o.Metrics != "" {
				addr, err := metricsAddress(o.Metrics)
				if err != nil {
					return term.Usagef("%w", err)
				}
				o.Metrics = addr
			}
			if err := o.setTraces(a.App); err != nil {
				return err
			}
			hup := make(chan os.Signal, 1)
			signal.Notify(hup, syscall.SIGHUP)
			defer signal.Stop(hup)
			return a.runNode(cmd.Context(), o, hup)
		},
	}
	o.flags(cmd.Flags())
	cmd.Flags().StringVar(&life, "cluster-key-life", "", fmt.Sprintf("time within which the node's key for encrypted "+
		"clusters is replaced, 0 for never (default %vh)", defaultKeyLife.Hours()))
	return cmd
}

// flags adds the flags of the command.
func (o *nodeOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.About.Version, "version-file", "", "file whose first line is the software version string (default "+
		versionFile+", if it exists, else this program's)")
	f.StringVar(&o.About.Firmware, "firmware-file", "", "file whose first line is the firmware version string")
	f.StringVar(&o.About.Info, "node-info", "", "file with a line HW_BOARD_ID=… (default "+nodeInfoFile+
		", if it exists)")
	f.StringVar(&o.About.Metadata, "metadata", "", "metadata of a vendor's configuration, in addition to the embedded one")
	f.StringVar(&o.About.BaseDir, "base-dir", "", "folder of base versions, in addition to the embedded ones")
	f.StringVar(&o.About.Actions, "actions", "", "table of commands for post-config actions (default "+action.File+
		", if it exists)")
	f.BoolVar(&o.Strict, "strict", false,
		"exit with code 1 if the state folder is damaged or read-only (default: start, and report it)")
	f.BoolVar(&o.AllowFaults, "allow-faults", false, "let 'edgespan shell --write' inject faults for a while (for tests)")
	f.StringVar(&o.Config, "config", "", "node config file (default "+reach.DefaultConfig+")")
	f.StringVar(&o.Metrics, "metrics", "", "serve metrics for Prometheus on http://ADDR/metrics; ADDR is a "+
		"port of 127.0.0.1, or IP:PORT (default off)")
	f.StringVar(&o.Trace.Endpoint, "trace-endpoint", "", "URL of an OpenTelemetry collector that gets traces by OTLP "+
		"over HTTP (default OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT, else no traces)")
	f.StringVar(&o.Trace.CA, "trace-ca", "", "PEM file of the CAs of the collector (default: those of the machine)")
	f.StringVar(&o.Trace.Ratio, "trace-ratio", "",
		"share of the changes that begin here and are traced, 0 to 1 (default 1)")
	f.StringVar(&o.ResolverRoot, "resolver-root", "",
		"root folder of the files with the DNS servers that other programs have learned")
	_ = f.MarkHidden("resolver-root") // the flag exists
	f.StringVar(&o.Record, "record", "", "folder that records what the daemon is told and decides, for 'edgespan replay' "+
		"(default none)")
	f.IntVar(&o.RecordSize, "record-size", defaultRecordSize, "MiB of disk that the recording takes; the oldest part is "+
		"deleted")
	f.StringVar(&o.StateDir, "state-dir", "", "state folder (default "+reach.DefaultStateDir+")")
}

// setTraces sets where traces go, by the flags and the environment.
func (o *nodeOptions) setTraces(a *reach.App) error {
	t := otlp.Options{Endpoint: a.Setting(o.Trace.Endpoint, "EDGESPAN_TRACE_ENDPOINT", ""),
		CA: a.Setting(o.Trace.CA, "EDGESPAN_TRACE_CA", ""), Ratio: a.Setting(o.Trace.Ratio, "EDGESPAN_TRACE_RATIO", "")}
	c, err := otlp.Configure(t, a.Env)
	if err != nil {
		return term.Usagef("%w", err)
	}
	if c.Endpoint != "" {
		o.Traces = &c
	}
	return nil
}

// makeAbsolute makes every path absolute, since the daemon's children run in /.
func (o *nodeOptions) makeAbsolute() error {
	for _, p := range []*string{
		&o.Config, &o.StateDir, &o.RunDir, &o.Socket, &o.Record,
		&o.About.Version, &o.About.Firmware, &o.About.Info, &o.About.Metadata, &o.About.BaseDir, &o.About.Actions,
	} {
		if *p == "" {
			continue
		}
		abs, err := filepath.Abs(*p)
		if err != nil {
			return fmt.Errorf("resolve %s: %w", *p, err)
		}
		*p = abs
	}
	return nil
}

// runNode runs one daemon until ctx or its top actor ends.
func (a program) runNode(ctx context.Context, o nodeOptions, hup <-chan os.Signal) error {
	if a.Env("GOGC") == "" {
		// An edge node has little memory, and its daemon has work now and then.
		go daemon.PaceCollector(ctx, daemon.Pace{Calm: 50, Busy: 300, From: 8 << 20})
	}
	go daemon.ReturnMemory(ctx, daemon.NodeMemory)
	lock, warning, err := a.lockNamespace(ctx)
	if err != nil {
		return err
	}
	o.Warning = warning
	defer func() { _ = lock.Close() }() // the kernel would release it too
	// Opening the journal creates the state folder, and the daemon also runs without it. dnsmasq is unprivileged and must
	// reach its files below the run folder.
	if err := os.MkdirAll(o.RunDir, 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	every := term.NewLogger(a.Err, zap.DebugLevel)
	o.Level = term.NewLevels(logNames(), loglevel.Info, every) // until the config sets another level
	log := term.WithLevels(every, o.Level)
	defer func() { _ = log.Sync() }() // a terminal can't be synced
	d, err := a.start(ctx, o, log)
	if err != nil {
		return fmt.Errorf("start node: %w", err)
	}
	serveCtx, stopServing := context.WithCancel(ctx)
	defer stopServing()
	served, page := make(chan error, 1), metricsPage(d, o.Version)
	go func() {
		served <- nodeapi.Serve(serveCtx, o.Socket,
			nodeapi.Handler(d, nodeapi.WithVersion(o.Version), nodeapi.WithMetrics(page),
				nodeapi.WithLogLevels(o.Level)))
	}()
	go serveShells(serveCtx, o.Socket, d.Shell(o.Level), log.Named(logShell))
	if o.Metrics != "" {
		go serveMetrics(serveCtx, o.Metrics, page, log)
	}
	log.Info("node runs", zap.String("version", o.Version), zap.String("config", o.Config), zap.String("socket", o.Socket))
	cause, serving := waitForEnd(ctx, d, hup, served)
	stopServing()
	if serving {
		cause = errors.Join(cause, <-served)
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reach.RequestTimeout)
	defer cancel()
	if err := d.Stop(stopCtx); err != nil {
		cause = errors.Join(cause, fmt.Errorf("stop node: %w", err))
	}
	log.Info("node stopped; its networks keep running", zap.Error(cause))
	if errors.Is(cause, errRestart) {
		_ = log.Sync() // exec runs no deferred calls
		return a.again()
	}
	return cause
}

// startAgain executes the installed program in this process, so that systemd sees no exit and an upgrade takes effect.
func startAgain() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	if err := syscall.Exec(self, os.Args, os.Environ()); err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	return nil
}

// waitForEnd waits for the end and reports whether the socket is still served.
func waitForEnd(ctx context.Context, d runningNode, hup <-chan os.Signal, served <-chan error) (cause error,
	serving bool) {
	for {
		select {
		case <-ctx.Done():
			return nil, true
		case <-hup:
			d.Reload()
		case err := <-d.Done():
			if errors.Is(err, errRestart) {
				return err, true
			}
			return errors.Join(errors.New("run node: top actor stopped"), err), true
		case err := <-served:
			return err, false
		}
	}
}

// lockNamespace takes the node's lock, or returns ErrConflict if another daemon runs in the namespace. warning is for
// the operator.
func (a program) lockNamespace(ctx context.Context) (lock *daemon.NamespaceLock, warning string, err error) {
	lock, warnings, err := daemon.LockNamespace(ctx, a.lockDir, a.lock)
	if errors.Is(err, daemon.ErrTaken) {
		err = fmt.Errorf("%w: another edgespan node runs in it: stop it first", rest.ErrConflict)
	}
	if err != nil {
		return nil, "", fmt.Errorf("lock network namespace: %w", err)
	}
	return lock, strings.Join(warnings, "; "), nil
}
