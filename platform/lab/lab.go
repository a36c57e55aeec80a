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

	"edgespan/platform/proc"
)

// The provider as the node sees it (addresses of RFC 5737).
const (
	Uplink       = "uplink0"         // the node's interface
	SilentDomain = "silent.example"  // queries for it get no answer
	WebName      = "www.example.net" // resolves to WebAddr
	NodeAt       = "192.0.2.2"       // the node's address on its uplink, which servers see because of NAT
	Gateway      = "192.0.2.1"       // the node's default gateway
	DNSAddr      = "198.51.100.53"   // the provider's DNS server, UDP and TCP
	WebAddr      = "198.51.100.80"   // its web server, on ports 80 and 443, both plain HTTP
	webText      = "hello from " + WebName
	// ProviderName resolves to the node's gateway at the provider whose DNS server was asked.
	ProviderName = "provider.example.net"
)

// The second provider as the node sees it. It has its own servers at DNSAddr and WebAddr: the client address that a
// server sees shows which way a request took.
const (
	Uplink2   = "uplink1"
	NodeAt2   = "203.0.113.2"
	Gateway2  = "203.0.113.1"
	isp2Short = "isp2"
)

// Options configure a lab.
type Options struct {
	// Name is the prefix of every namespace's name; "" for a unique one.
	Name string
	// Dir contains the lab's files; "" for a new temporary folder. Every user must be able to enter it, since dnsmasq
	// runs as nobody.
	Dir string
	// Binary is the edgespan program.
	Binary string
	// Child is the argv that runs ChildMain in another process; the child's own arguments are appended. Empty for Binary
	// with ChildCommand.
	Child []string
	// Apps are the namespaces of apps, as configs name them; empty for AppWeb and AppClient.
	Apps []string
	// Bare leaves out the uplink and the provider: the caller creates the node's links.
	Bare bool
	// Second adds Uplink2 and its provider, in the namespace "isp2". The node's default route through it has metric 100.
	Second bool
	// Uplinks is the number of uplinks, at most MaxUplinks; 0 is one, or two with Second.
	Uplinks int
	// Wires puts a Go relay between each uplink and its provider, which SetDelay needs. It ends with this process.
	Wires bool
	// MTU and MTU2 are the MTUs of both ends of Uplink and Uplink2; 0 is 1500.
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
	providers         []*Provider
}

//go:embed udhcpc.sh
var udhcpcScript []byte

var labs atomic.Int64

// Open returns a lab without building it, to use or remove an existing one.
func Open(o Options) (*Lab, error) {
	l := &Lab{Name: o.Name, Dir: o.Dir, Binary: o.Binary, child: o.Child, apps: o.Apps, bare: o.Bare}
	if l.Name == "" {
		l.Name = fmt.Sprintf("eslab%d-%d", os.Getpid(), labs.Add(1))
	}
	if !l.bare {
		if l.providers = providers(o); l.providers == nil {
			return nil, fmt.Errorf("lab with %d uplinks: must be at most %d", o.Uplinks, MaxUplinks)
		}
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

// Up builds a lab. It first removes leftovers of an earlier lab of the same name. After an error it leaves nothing.
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
	// os.MkdirTemp creates the folder with mode 0700, which would exclude dnsmasq.
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

// addNamespace creates a namespace with lo up. If br_netfilter is loaded, its sysctls are 1 in a new namespace, and
// every bridge would pass its frames to iptables; addNamespace resets them.
func (l *Lab) addNamespace(ctx context.Context, ns string) error {
	if err := command(ctx, "ip", "netns", "add", ns); err != nil {
		return err
	}
	for _, f := range []string{"iptables", "ip6tables", "arptables"} {
		if err := proc.SetIn("/run/netns/"+ns, "/proc/sys/net/bridge/bridge-nf-call-"+f, "0"); err != nil {
			return err
		}
	}
	return command(ctx, "ip", "-n", ns, "link", "set", "lo", "up")
}

// NS returns the full name of a namespace of the lab: "node", a provider's ("isp", "isp2") or an app's.
func (l *Lab) NS(short string) string { return l.Name + "-" + short }

// tools are the commands that a lab and its daemon run.
var tools = []string{"ip", "sysctl", "dnsmasq", "iptables", "nft", "udhcpc", "dig", "ping", "curl"}

// MissingTools returns the commands that a lab needs and that are not in PATH.
func MissingTools() []string {
	var missing []string
	for _, t := range tools {
		if _, err := exec.LookPath(t); err != nil {
			missing = append(missing, t)
		}
	}
	return missing
}

// ShortNames returns the short names of the lab's namespaces.
func (l *Lab) ShortNames() []string {
	shorts := []string{"node"}
	for _, p := range l.providers {
		shorts = append(shorts, p.Short)
		if p.wired {
			shorts = append(shorts, p.wireShort())
		}
	}
	return append(shorts, l.apps...)
}

// HasNamespace reports whether a namespace of the lab exists.
func (l *Lab) HasNamespace(short string) bool {
	_, err := os.Stat(filepath.Join("/run/netns", l.NS(short)))
	return err == nil && slices.Contains(l.ShortNames(), short)
}

func (l *Lab) namespaces() []string {
	var names []string
	for _, s := range l.ShortNames() {
		names = append(names, l.NS(s))
	}
	return names
}

// StateDir returns the daemon's state folder.
func (l *Lab) StateDir() string { return filepath.Join(l.Dir, "state") }

// RunDir returns the daemon's runtime folder.
func (l *Lab) RunDir() string { return filepath.Join(l.Dir, "run") }

// ResolverRoot returns the folder that replaces "/" when the daemon looks for the DNS servers of other programs.
func (l *Lab) ResolverRoot() string { return filepath.Join(l.Dir, "machine") }

// ConfigFile returns the daemon's config file, which WriteConfig writes.
func (l *Lab) ConfigFile() string { return filepath.Join(l.Dir, "node.json") }

// Socket returns the daemon's control socket.
func (l *Lab) Socket() string { return filepath.Join(l.RunDir(), "edgespan.sock") }

// NodeLog returns the log of all daemons of this lab, one after the other.
func (l *Lab) NodeLog() string { return filepath.Join(l.Dir, "node.log") }

func (l *Lab) script() string { return filepath.Join(l.Dir, "udhcpc.sh") }

// Down ends every process in the lab's namespaces and removes the namespaces and the folder. A missing lab is no
// error.
func (l *Lab) Down(ctx context.Context) error {
	for _, p := range l.providers {
		p.closeWire()
	}
	return errors.Join(l.removeHost(ctx), l.endTunnels(ctx), os.RemoveAll(l.Dir))
}

// endTunnels ends what carries IPsec, once no daemon can start it again: it runs in namespaces without a name.
func (l *Lab) endTunnels(ctx context.Context) error {
	confs, err := filepath.Glob(filepath.Join(l.RunDir(), "ni", "*", "vpn", "strongswan.conf"))
	for _, conf := range confs {
		found, fault := proc.Marked("STRONGSWAN_CONF=" + conf)
		err = errors.Join(err, fault)
		for _, id := range found {
			err = errors.Join(err, id.Stop(ctx, 0))
		}
	}
	return err
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

// command runs argv and includes its output in the error.
func command(ctx context.Context, argv ...string) error {
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("run %s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
