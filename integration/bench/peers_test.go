package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"edgespan/platform/proc"
)

// peer is another program that makes NAT networks.
type peer struct {
	name string
	// missing is why it cannot be measured here, "" where it can.
	missing func() string
	// install are the Debian packages that have it.
	install string
	// create makes networks 1 to count in a place and tells how long that took.
	create func(p *place, count int) time.Duration
	// bridges is how the names of its bridges begin.
	bridges string
}

var peers = []peer{
	{"docker", programs("dockerd"), "docker.io", docker, "br-"},
	{"libvirt", libvirtMissing, "libvirt-daemon libvirt-clients", libvirt, "vb"},
	{"cni", plugins("bridge", "host-local", "firewall"), "containernetworking-plugins", cni, "cb"},
}

// A hundred networks by one config of ours, until each gateway answers DNS; and as many by
// each peer that is installed, one after the other, since none of them takes more at once.
// A peer is asked in the way that costs it least, and its own start is not counted.
func BenchmarkBesidePeers(b *testing.B) {
	const count = 100
	for _, peer := range peers {
		b.Run(peer.name, func(b *testing.B) {
			if why := peer.missing(); why != "" {
				// Also without -v, where the testing package is silent about it.
				fmt.Printf("%s: skipped: %s: apt-get install --no-install-recommends %s\n", b.Name(), why, peer.install)
				b.Skip(why)
			}
			var own, theirs []time.Duration
			turns(b, func() {
				took, _ := manyNetworks(b, count)
				own = append(own, took/count)
			}, func() {
				p := newPlace(b, 0)
				defer p.close()
				theirs = append(theirs, peer.create(p, count)/count)
				p.made(peer.bridges, count)
			})
			o, t := median(own), median(theirs)
			b.ReportMetric(0, "ns/op") // as in ratio
			b.ReportMetric(float64(o.Microseconds())/1000, "ms/network-ours")
			b.ReportMetric(float64(t.Microseconds())/1000, "ms/network-"+peer.name)
			b.ReportMetric(float64(t)/float64(o), "ratio")
			var pairs []float64
			for i := range min(len(own), len(theirs)) {
				pairs = append(pairs, float64(theirs[i])/float64(own[i]))
			}
			b.ReportMetric(noise(pairs), "noise")
		})
	}
}

// made checks that a peer did the work: its bridges are there, and what leaves each is masqueraded.
func (p *place) made(bridges string, count int) {
	p.Helper()
	links, nat := p.links(bridges), strings.Count(p.ns.Exec(p.B, "iptables-save", "-t", "nat"), "-j MASQUERADE")
	if links != count || nat < count {
		p.Fatalf("made %d bridges and %d rules that masquerade, want %d of each", links, nat, count)
	}
}

func programs(names ...string) func() string {
	return func() string {
		for _, name := range names {
			if !proc.HasCommand(name) {
				return name + " is not installed"
			}
		}
		return ""
	}
}

// cniDirs are where plugins are by convention: Debian's place, and upstream's.
var cniDirs = []string{"/usr/lib/cni", "/opt/cni/bin"}

func plugins(names ...string) func() string {
	return func() string {
		if pluginDir(names...) == "" {
			return fmt.Sprintf("no %s in %s", strings.Join(names, ", "), strings.Join(cniDirs, " or "))
		}
		return ""
	}
}

// pluginDir is the folder that has all these plugins, "" where there is none.
func pluginDir(names ...string) string {
	for _, dir := range cniDirs {
		found := 0
		for _, name := range names {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				found++
			}
		}
		if found == len(names) {
			return dir
		}
	}
	return ""
}

// alone starts a peer's daemon inside the place's network namespace, in a mount
// namespace of its own where the folders that daemons share by convention are empty. So
// it neither finds nor disturbs what the machine runs of its kind.
func (p *place) alone(prepare string, argv ...string) {
	p.Helper()
	log, err := os.Create(filepath.Join(p.dir, "peer.log"))
	p.check(err)
	hide := "for d in /run /var/lib /var/cache /var/log; do mount -t tmpfs none $d; done\n"
	args := append([]string{"--net=" + p.ns.Path, "--", "unshare", "--mount", "sh", "-ec", hide + prepare +
		"\nexec \"$@\"", "sh"}, argv...)
	cmd := exec.Command("nsenter", args...)
	cmd.Stdout, cmd.Stderr = log, log
	p.check(cmd.Start())
	p.check(log.Close())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	p.end = append(p.end, func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
	})
}

// answered waits until a peer's daemon is ready.
func (p *place) answered(ask func() error) {
	p.Helper()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = ask(); err == nil {
			return
		}
	}
	p.Fatalf("the peer never answered: %v; it said:\n%s", err, tail(filepath.Join(p.dir, "peer.log")))
}

// docker asks dockerd by its REST interface, which spares it the start of a command. Its
// networks have no DNS of their own: each of their containers gets one.
func docker(p *place, count int) time.Duration {
	sock, conf := filepath.Join(p.dir, "docker.sock"), filepath.Join(p.dir, "docker.json")
	p.check(os.WriteFile(conf, []byte("{}"), 0o600)) // not the machine's
	p.alone("", "dockerd", "--config-file", conf, "--host", "unix://"+sock, "--pidfile",
		filepath.Join(p.dir, "docker.pid"),
		"--data-root", filepath.Join(p.dir, "data"), "--exec-root", filepath.Join(p.dir, "exec"), "--storage-driver", "vfs")
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", sock)
	}}}
	defer c.CloseIdleConnections()
	p.answered(func() error { return call(c, http.MethodGet, "/_ping", nil, http.StatusOK) })

	start := time.Now()
	for n := range count {
		p.check(call(c, http.MethodPost, "/networks/create", object{
			"Name": fmt.Sprintf("lan%d", n+1), "Driver": "bridge", "CheckDuplicate": true,
			"IPAM": object{"Config": []object{{"Subnet": subnet(n + 1).String(), "Gateway": gateway(n + 1).String()}}},
		}, http.StatusCreated))
	}
	return time.Since(start)
}

func call(c *http.Client, method, path string, body any, want int) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://docker"+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != want {
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, said)
	}
	return err
}

func libvirtMissing() string {
	why := programs("libvirtd", "virsh")()
	if why == "" && libvirtDriver() == "" {
		why = "libvirt's network driver is not installed"
	}
	return why
}

// libvirtDriver is the path of its network driver, "" where there is none.
func libvirtDriver() string {
	for _, dir := range []string{"/usr/lib/*", "/usr/lib64", "/usr/lib"} {
		if found, _ := filepath.Glob(dir + "/libvirt/connection-driver/libvirt_driver_network.so"); found != nil {
			return found[0]
		}
	}
	return ""
}

// libvirt asks libvirtd by one virsh for all, until each gateway answers DNS.
func libvirt(p *place, count int) time.Duration {
	conf := filepath.Join(p.dir, "libvirtd.conf")
	p.check(os.WriteFile(conf,
		fmt.Appendf(nil, "unix_sock_dir = %q\nauth_unix_rw = \"none\"\nauth_unix_ro = \"none\"\n", p.dir), 0o600))
	// Only its network driver: the others want users, firmware tables and folders of the machine.
	drivers := filepath.Join(p.dir, "drivers")
	p.check(os.Mkdir(drivers, 0o755))
	p.check(os.Symlink(libvirtDriver(), filepath.Join(drivers, filepath.Base(libvirtDriver()))))
	// The settings of its bridges are files of the namespace's own /sys, and /etc/libvirt has the machine's networks.
	p.alone("mount -t sysfs none /sys; mount -t tmpfs none /etc/libvirt; export LIBVIRT_DRIVER_DIR="+drivers,
		"libvirtd", "--config", conf, "--pid-file", filepath.Join(p.dir, "libvirtd.pid"))
	virsh := func(commands string) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, "virsh", "--connect", "network:///system?socket="+
			filepath.Join(p.dir, "libvirt-sock"), commands).CombinedOutput()
		if err != nil {
			return fmt.Errorf("virsh: %w: %s", err, out)
		}
		return nil
	}
	p.answered(func() error { return virsh("net-list") })

	commands := &strings.Builder{}
	for n := range count {
		path, gw := filepath.Join(p.dir, fmt.Sprintf("lan%d.xml", n+1)), gateway(n+1)
		first, last := gw.As4(), gw.As4()
		first[3], last[3] = 128, 254
		p.check(os.WriteFile(path, fmt.Appendf(nil, `<network><name>lan%d</name><bridge name="vb%d"/><forward mode="nat"/>
<dns><host ip="%s"><hostname>gateway.lan</hostname></host></dns>
<ip address="%s" prefix="24"><dhcp><range start="%s" end="%s"/></dhcp></ip></network>`,
			n+1, n+1, gw, gw, net.IP(first[:]), net.IP(last[:])), 0o600))
		fmt.Fprintf(commands, "net-create %s;", path)
	}
	start := time.Now()
	p.check(virsh(commands.String()))
	p.answers(gateways(count))
	return time.Since(start)
}

// cni runs the plugins as a container runtime does. A network comes into being with its
// first endpoint, and has no DNS.
func cni(p *place, count int) time.Duration {
	dir := pluginDir("bridge", "host-local", "firewall")
	for range count {
		p.app()
	}
	start := time.Now()
	for n := range count {
		conf := object{
			"cniVersion": "0.4.0", "name": fmt.Sprintf("lan%d", n+1), "type": "bridge", "bridge": fmt.Sprintf("cb%d", n+1),
			"isGateway": true, "ipMasq": true, "ipam": object{
				"type": "host-local", "subnet": subnet(n + 1).String(), "gateway": gateway(n + 1).String(),
				"dataDir": filepath.Join(p.dir, "ipam"),
			},
		}
		result := p.plugin(dir, n, conf)
		p.plugin(dir, n, object{
			"cniVersion": "0.4.0", "name": conf["name"], "type": "firewall", "backend": "iptables", "prevResult": result,
		})
	}
	return time.Since(start)
}

// plugin adds an app's first link by a plugin and returns what it says.
func (p *place) plugin(dir string, app int, conf object) json.RawMessage {
	p.Helper()
	text, err := json.Marshal(conf)
	p.check(err)
	var out bytes.Buffer
	p.check(proc.In(p.ns.Path, func() error {
		cmd := exec.Command(filepath.Join(dir, conf["type"].(string)))
		cmd.Env = append(os.Environ(), "CNI_COMMAND=ADD", "CNI_IFNAME=eth0", "CNI_PATH="+dir,
			fmt.Sprintf("CNI_CONTAINERID=app%d", app), "CNI_NETNS="+p.apps[app].Path)
		cmd.Stdin, cmd.Stdout = bytes.NewReader(text), &out
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("plugin %s: %w: %s", conf["type"], err, out.String())
		}
		return nil
	}))
	return out.Bytes()
}
