package lab

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
)

// What a node sees of the provider (addresses of RFC 5737).
const (
	Uplink       = "uplink0"         // the node's interface
	SilentDomain = "silent.example"  // nothing in it is answered
	WebName      = "www.example.net" // resolves to WebAddr
	NodeAt       = "192.0.2.2"       // the node on its uplink: what a server behind NAT sees
	Gateway      = "192.0.2.1"       // the node's default gateway
	DNSAddr      = "198.51.100.53"   // the provider's DNS server, UDP and TCP
	WebAddr      = "198.51.100.80"   // its web server, on ports 80 and 443, both plain HTTP
	webText      = "hello from " + WebName
	// ProviderName resolves to the node's gateway at the provider that was asked.
	ProviderName = "provider.example.net"
)

// What a node sees of the second provider, which has servers of its own at DNSAddr and WebAddr: the
// address that a server sees tells which way a request took.
const (
	Uplink2   = "uplink1"
	NodeAt2   = "203.0.113.2"
	Gateway2  = "203.0.113.1"
	isp2Short = "isp2"
)

// Options says what lab to build.
type Options struct {
	// Name begins the name of every namespace; "" for one that no other lab has.
	Name string
	// Dir keeps the lab's files; "" for a new folder below the temporary one. Everybody
	// must be able to enter it, since dnsmasq runs as nobody.
	Dir string
	// Binary is the edgespan program.
	Binary string
	// Child is the argv that runs ChildMain in another process, to which its own
	// arguments are added; empty for Binary with ChildCommand.
	Child []string
	// Apps are the namespaces of apps, as configs name them; empty for AppWeb and AppClient.
	Apps []string
	// Bare leaves out the uplink and the provider: who builds the lab gives the node its links.
	Bare bool
	// Second adds Uplink2 and its provider, in the namespace "isp2". The node's default route by it
	// has the metric 100.
	Second bool
	// MTU and MTU2 are those of both ends of Uplink and Uplink2; 0 is 1500.
	MTU, MTU2 int
}

// The apps of examples/demo.yaml.
const (
	AppWeb    = "app-web"
	AppClient = "app-client"
)

// Lab is one lab.
type Lab struct {
	Name, Dir, Binary string
	child             []string
	apps              []string
	bare              bool
	providers         []provider
}

//go:embed udhcpc.sh
var udhcpcScript []byte

var labs atomic.Int64

// Open names a lab without building it: to use or remove one that stands.
func Open(o Options) (*Lab, error) {
	l := &Lab{Name: o.Name, Dir: o.Dir, Binary: o.Binary, child: o.Child, apps: o.Apps, bare: o.Bare}
	if l.Name == "" {
		l.Name = fmt.Sprintf("eslab%d-%d", os.Getpid(), labs.Add(1))
	}
	if !l.bare {
		l.providers = providers(o)
	}
	if l.child == nil {
		l.child = []string{o.Binary, ChildCommand}
	}
	if l.apps == nil {
		l.apps = []string{AppWeb, AppClient}
	}
	if l.Dir == "" {
		dir, err := os.MkdirTemp("", "eslab")
		if err != nil {
			return nil, fmt.Errorf("make lab folder: %w", err)
		}
		l.Dir = dir
	}
	return l, nil
}

// Up builds a lab; what an earlier one of the same name left goes first. On error
// nothing stays.
func Up(ctx context.Context, o Options) (*Lab, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("build lab: %w: network namespaces need root: run it as root", os.ErrPermission)
	}
	l, err := Open(o)
	if err != nil {
		return nil, err
	}
	if err := l.removeHost(ctx); err != nil {
		return nil, fmt.Errorf("remove earlier lab: %w", err)
	}
	if err := l.build(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("build lab: %w", err), l.Down(context.WithoutCancel(ctx)))
	}
	return l, nil
}

func (l *Lab) build(ctx context.Context) error {
	for _, dir := range []string{l.Dir, l.StateDir(), l.RunDir(), l.ResolverRoot()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	// os.MkdirTemp makes 0700, which would keep dnsmasq out.
	if err := os.Chmod(l.Dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(l.script(), udhcpcScript, 0o755); err != nil {
		return err
	}
	for _, ns := range l.namespaces() {
		if err := l.addNamespace(ctx, ns); err != nil {
			return err
		}
	}
	for _, p := range l.providers {
		if err := l.addProvider(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// addNamespace makes one with lo up. Where br_netfilter is there, a new namespace
// starts with its sysctls at 1, and every bridge would hand its frames to iptables.
func (l *Lab) addNamespace(ctx context.Context, ns string) error {
	if err := command(ctx, "ip", "netns", "add", ns); err != nil {
		return err
	}
	const quiet = `for f in iptables ip6tables arptables; do
	f=/proc/sys/net/bridge/bridge-nf-call-$f
	if [ -e $f ]; then echo 0 >$f || exit 1; fi
done`
	if err := command(ctx, "ip", "netns", "exec", ns, "sh", "-c", quiet); err != nil {
		return err
	}
	return command(ctx, "ip", "-n", ns, "link", "set", "lo", "up")
}

// NS is the full name of a namespace of the lab: "node", "isp", "isp2" or an app's.
func (l *Lab) NS(short string) string { return l.Name + "-" + short }

// tools are the commands that a lab and the daemon in it run.
var tools = []string{"ip", "sysctl", "dnsmasq", "iptables", "nft", "udhcpc", "dig", "ping", "curl"}

// MissingTools are the commands that a lab needs and PATH does not have.
func MissingTools() []string {
	var missing []string
	for _, t := range tools {
		if _, err := exec.LookPath(t); err != nil {
			missing = append(missing, t)
		}
	}
	return missing
}

// Shorts are the short names of the lab's namespaces.
func (l *Lab) Shorts() []string {
	shorts := []string{"node"}
	for _, p := range l.providers {
		shorts = append(shorts, p.short)
	}
	return append(shorts, l.apps...)
}

// Stands says whether a namespace of the lab exists.
func (l *Lab) Stands(short string) bool {
	_, err := os.Stat(filepath.Join("/run/netns", l.NS(short)))
	return err == nil && slices.Contains(l.Shorts(), short)
}

func (l *Lab) namespaces() []string {
	var names []string
	for _, s := range l.Shorts() {
		names = append(names, l.NS(s))
	}
	return names
}

// StateDir, RunDir, ConfigFile and Socket are where the lab's daemon has its things.
func (l *Lab) StateDir() string { return filepath.Join(l.Dir, "state") }

// RunDir is the daemon's runtime folder.
func (l *Lab) RunDir() string { return filepath.Join(l.Dir, "run") }

// ResolverRoot is where the daemon looks for DNS servers that other programs have learnt, as
// below "/" on a machine.
func (l *Lab) ResolverRoot() string { return filepath.Join(l.Dir, "machine") }

// ConfigFile is what WriteConfig writes and the daemon is started with.
func (l *Lab) ConfigFile() string { return filepath.Join(l.Dir, "node.json") }

// Socket is the daemon's control socket.
func (l *Lab) Socket() string { return filepath.Join(l.RunDir(), "edgespan.sock") }

// NodeLog is what the daemons of this lab said, all of them one after the other.
func (l *Lab) NodeLog() string { return filepath.Join(l.Dir, "node.log") }

func (l *Lab) script() string { return filepath.Join(l.Dir, "udhcpc.sh") }

// Down ends every process inside the lab's namespaces and removes these and the
// folder. A lab that is not there is no error.
func (l *Lab) Down(ctx context.Context) error {
	return errors.Join(l.removeHost(ctx), os.RemoveAll(l.Dir))
}

// removeHost removes processes and namespaces.
func (l *Lab) removeHost(ctx context.Context) error {
	var errs []error
	for _, ns := range l.namespaces() {
		path := filepath.Join("/run/netns", ns)
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := endProcesses(ctx, path); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, command(ctx, "ip", "netns", "del", ns))
	}
	return errors.Join(errs...)
}

// command runs argv and puts what it said into the error.
func command(ctx context.Context, argv ...string) error {
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("run %s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
