package supportcli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/redact"
	"edgespan/config/layers/schema"
	"edgespan/platform/confdir"
	"edgespan/platform/store"
	"edgespan/platform/support"
)

// collectAt is GOGC: the texts of parts are large and short-lived.
const collectAt = 25

// maxSince bounds --since.
const maxSince = 90 * 24 * time.Hour

// collection is one run of the command.
type collection struct {
	*reach.App
	version string

	output, stateDir, config, metadata string
	since                              time.Duration
	noLogs, flows, force               bool

	daemon support.Daemon
	redact redact.Redactor
	schema *metadata.Metadata
}

// New returns the command `support`.
func New(a *reach.App, version string) *cobra.Command {
	c := &collection{App: a, version: version}
	cmd := &cobra.Command{
		Use:   "support [-o FILE|-]",
		Short: "Write a support archive of this node, without secrets",
		Example: `  edgespan support
  edgespan support -o node.tar.gz --since 2h`,
		Long: `support writes one compressed archive with what helps to find a fault of this node: its configs
without secrets, its status, events and findings, the daemon's log, metrics and goroutines, and the
state of the host. README.txt in it lists each file, and what is missing and why.

It also works if the daemon is dead or does not answer: then it collects what is known from outside.
Run it as root: without root, parts are missing. It changes nothing.

Secrets are replaced: what the metadata declares secret, what has the name of a secret, users and
passwords in URLs, tokens and keys, wherever they appear. Names, addresses and the texts of logs
stay. The flow log, which says who talked to whom, is included only with --flows.

A file is created with mode 0600 once the archive is complete, and never replaced without --force.
- writes to stdout.`,
		Args: term.ExactArgs(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVarP(&c.output, "output", "o", "", "FILE, or - for stdout (default edgespan-support-NODE-TIME.tar.gz)")
	f.DurationVar(&c.since, "since", 24*time.Hour, "how far to go back in log and events")
	f.BoolVar(&c.noLogs, "no-logs", false, "leave out the daemon's log")
	f.BoolVar(&c.flows, "flows", false, "include the end of the flow log")
	f.BoolVar(&c.force, "force", false, "replace an existing file")
	f.StringVar(&c.config, "config", "", "node config file (default that of the daemon)")
	f.StringVar(&c.stateDir, "state-dir", "", "state folder (default that of the daemon)")
	f.StringVar(&c.metadata, "metadata", "", "metadata of a vendor's configuration (default that of the daemon)")
	return cmd
}

func (c *collection) run(ctx context.Context) error {
	if c.since <= 0 || c.since > maxSince {
		return term.Invalid("--since", c.since, "more than 0s, and at most "+maxSince.String())
	}
	if err := CheckOutput(c.output, c.Out); err != nil {
		return err
	}
	if err := c.prepare(); err != nil {
		return err
	}
	defer debug.SetGCPercent(debug.SetGCPercent(collectAt)) // a node may have little memory
	now := time.Now()
	options := support.Options{Node: c.daemon.Node, Version: c.version, Redactor: &c.redact, Now: now,
		Command: c.commandLine()}
	var made support.Manifest
	write := func(w io.Writer) (err error) {
		made, err = support.Write(ctx, w, options, c.parts(now))
		return err
	}
	if c.output == "-" {
		return write(c.Out)
	}
	path := cmp.Or(c.output, support.Folder(options.Node, now)+".tar.gz")
	if err := c.writeFile(path, write); err != nil {
		return err
	}
	c.Printf("%s: %s, %d left out; its README.txt lists them", term.Printable(path), term.Many(len(made.Files), "file"),
		len(made.LeftOut))
	return nil
}

// archiveMode is the file mode of an archive: it has no secrets, but addresses and logs.
const archiveMode = 0o600

func (c *collection) writeFile(path string, write func(io.Writer) error) error {
	return WriteArchive(path, c.force, write)
}

// WriteArchive creates the file of an archive once write has written all of it. It replaces an existing one only with
// force.
func WriteArchive(path string, force bool, write func(io.Writer) error) error {
	exists := term.WithClass(term.ExitConflict, fmt.Errorf("%s: exists: use --force to replace it, or another FILE",
		term.Printable(path)))
	if force {
		return store.WriteStream(path, archiveMode, write)
	}
	if _, err := os.Lstat(path); err == nil { // before the work
		return exists
	}
	err := store.CreateStream(path, archiveMode, write)
	if errors.Is(err, fs.ErrExist) {
		return exists
	}
	return err
}

// CheckOutput refuses an archive on a terminal, which could obey what is in it.
func CheckOutput(file string, stdout io.Writer) error {
	if out, ok := stdout.(*os.File); ok && file == "-" && isTerminal(out) {
		return term.Usagef("-o -: stdout is a terminal: redirect it, or name a FILE")
	}
	return nil
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && f.Name() != os.DevNull
}

// prepare finds out about the daemon and reads the metadata. Without a record of the daemon, and without metadata that
// can be read, the defaults remain: values that the embedded metadata does not describe are masked.
func (c *collection) prepare() error {
	socket := absolute(c.SocketPath())
	d, err := support.ReadDaemon(socket, filepath.Dir(socket), c.RunFolder())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.Printf("%s", term.Printable(err.Error()))
	}
	d.RunDir, d.Socket = cmp.Or(d.RunDir, absolute(c.RunFolder())), socket
	d.StateDir = c.Setting(c.stateDir, "EDGESPAN_STATE_DIR", cmp.Or(d.StateDir, reach.DefaultStateDir))
	d.Config = c.Setting(c.config, "EDGESPAN_CONFIG", cmp.Or(d.Config, reach.DefaultConfig))
	d.Metadata = cmp.Or(c.metadata, d.Metadata)
	if d.Node == "" {
		d.Node, _ = os.Hostname() // only a name
	}
	c.daemon = d
	m, faults := metadata.Parse(schema.NodeMetadata(), metadata.Options{})
	if faults != nil {
		return fmt.Errorf("embedded metadata: %w", faults)
	}
	c.schema = m
	if d.Metadata == "" {
		return nil
	}
	vendor, err := confdir.ReadObject(d.Metadata)
	if err == nil {
		if merged, _, faults := m.Merge(vendor); faults == nil {
			c.schema = merged
			return nil
		}
		err = fmt.Errorf("%s: is no valid metadata", d.Metadata)
	}
	c.Printf("%s: values that the embedded metadata does not describe are masked", term.Printable(err.Error()))
	return nil
}

// commandLine returns the flags as the index shows them.
func (c *collection) commandLine() string {
	words := []string{"edgespan support --since " + c.since.String()}
	for name, on := range map[string]bool{"--no-logs": c.noLogs, "--flows": c.flows} {
		if on {
			words = append(words, name)
		}
	}
	return strings.Join(words, " ")
}

// absolute returns a path as the daemon has it.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
