package ipsec

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
)

// programs are where distributions have charon. charon-systemd is the one that neither detaches itself nor has a file
// of its process id, whose path is fixed; it runs without systemd, too.
var programs = []string{
	"/usr/sbin/charon-systemd", "/usr/libexec/strongswan/charon-systemd", "/usr/libexec/charon-systemd",
}

// confinement is that of a charon. It needs CAP_NET_ADMIN for its tun device, marks and the kernel's IPsec, and
// CAP_NET_BIND_SERVICE for ports 500 and 4500. Its log has a bound even while no daemon runs.
var confinement = proc.Confinement{
	Keep:     []uintptr{unix.CAP_NET_ADMIN, unix.CAP_NET_BIND_SERVICE, unix.CAP_NET_RAW},
	Memory:   4 << 30, // of address space: each thread reserves some
	Files:    1024,
	FileSize: 1 << 20,
}

// The UDP ports at which peers call (RFC 7296 §2.23).
const (
	listenIKE = 500
	listenNAT = 4500
)

// configVariable names the configuration of a charon, and identifies a process that an interrupted start has left.
const configVariable = "STRONGSWAN_CONF"

func (t *Tunnels) mark(name string) string {
	return configVariable + "=" + filepath.Join(t.folder(name), configFile)
}

// start starts the charon of a tunnel, of which none runs, and returns when it answers and the link exists.
func (t *Tunnels) start(ctx context.Context, r record) (proc.Ident, error) {
	program := ""
	for _, path := range programs {
		if _, err := os.Stat(path); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		return proc.Ident{}, errors.New("charon-systemd is not installed (packages charon-systemd, " +
			"libcharon-extra-plugins, libcharon-extauth-plugins, libstrongswan-standard-plugins, libstrongswan-extra-plugins)")
	}
	if err := t.linkFree(r); err != nil {
		return proc.Ident{}, err
	}
	folder := t.folder(r.Name)
	confinement := confinement
	confinement.User = userOf(r.By)
	if err := makeFolder(folder, confinement.User); err != nil {
		return proc.Ident{}, err
	}
	if err := makeOwn(filepath.Join(folder, ownFolder), confinement.User); err != nil {
		return proc.Ident{}, err
	}
	if err := os.Remove(filepath.Join(folder, recordFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return proc.Ident{}, fmt.Errorf("clear folder: %w", err)
	}
	if err := writeFile(filepath.Join(folder, outFile), nil); err != nil { // with the right mode
		return proc.Ident{}, fmt.Errorf("make log: %w", err)
	}
	file := filepath.Join(folder, configFile)
	if err := errors.Join(writeFile(file, []byte(r.Config)), shareWith(confinement.User, file, 0o640)); err != nil {
		return proc.Ident{}, fmt.Errorf("write configuration: %w", err)
	}
	// charon gets this environment only, and no signal when its log is full. Few arenas keep its memory small.
	argv := []string{"env", "-i", "--ignore-signal=XFSZ", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "MALLOC_ARENA_MAX=2",
		t.mark(r.Name), program}
	id, sockets, err := t.run.StartApart(argv, filepath.Join(folder, outFile), confinement,
		proc.Apart{Prepare: prepareView, XFRM: r.By == byKernel})
	if err != nil {
		return proc.Ident{}, fmt.Errorf("start charon: %w", err)
	}
	r.Ident = id
	err = t.awaitStart(ctx, r)
	sockets.Close()
	if err == nil {
		err = t.makeLink(r)
	}
	if err != nil {
		err = fmt.Errorf("start charon: %w%s", err, t.lastWords(r.Name))
		return proc.Ident{}, errors.Join(err, id.Stop(context.WithoutCancel(ctx), stopGrace))
	}
	return id, nil
}

// userOf returns whom a charon runs as, nil for root: on machines without that user, and where only root may make a tun
// device.
func userOf(by string) *proc.User {
	if by == byProcess {
		if info, err := os.Stat("/dev/net/tun"); err != nil || info.Mode().Perm()&0o006 != 0o006 {
			return nil
		}
	}
	return proc.LookupUser(netstate.VPNUser)
}

// makeFolder makes the folder of a tunnel, which a charon may enter.
func makeFolder(folder string, u *proc.User) error {
	if err := errors.Join(os.MkdirAll(filepath.Dir(folder), 0o755), os.MkdirAll(folder, 0o700),
		shareWith(u, folder, 0o710)); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	return nil
}

// shareWith gives the group of a user what a mode says.
func shareWith(u *proc.User, path string, mode os.FileMode) error {
	if u == nil {
		return os.Chmod(path, mode&0o700)
	}
	return errors.Join(os.Lchown(path, 0, int(u.GID)), os.Chmod(path, mode))
}

// awaitStart waits until a charon answers.
func (t *Tunnels) awaitStart(ctx context.Context, r record) error {
	c := t.client(r)
	for {
		one, cancel := context.WithTimeout(ctx, askTime)
		err := c.answers(one)
		cancel()
		switch {
		case err == nil:
			return nil
		case !r.Alive():
			return errors.New("it has ended")
		case errors.Is(err, errForeign):
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", context.Cause(ctx))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// stop ends the recorded charon of a tunnel, else any that has its configuration, and removes a link of the kernel
// that one of them has left; a tun device ends with its process.
func (t *Tunnels) stop(ctx context.Context, name string) error {
	r, err := read(t.folder(name))
	if err == nil && r.Alive() {
		if err := r.Stop(ctx, stopGrace); err != nil {
			return err
		}
	}
	if err == nil && r.Pid != 0 {
		return t.dropKernel(r.Number, r.Link)
	}
	// A crash between a start and its record leaves a process with an unknown pid, and so does the loss of the run folder.
	strays, err := proc.Marked(t.mark(name))
	if err != nil {
		return err
	}
	for _, id := range strays {
		if err := id.Stop(ctx, stopGrace); err != nil {
			return err
		}
	}
	number, err := numberOf(name)
	if err != nil {
		return err
	}
	return t.dropKernel(number, fmt.Sprintf("evpn%d", number))
}

// portsOf returns the ports of a tunnel: those of IKE if it listens, or else free ones, which it keeps.
func (t *Tunnels) portsOf(v netstate.VPN, have record, known bool) (ports, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v.IPsec.Listen {
		return ports{IKE: listenIKE, NAT: listenNAT}, nil
	}
	number, err := numberOf(v.Name)
	if err != nil {
		return ports{}, err
	}
	if known && have.Ports.IKE > 0 && have.Ports.IKE != listenIKE {
		t.taken[number] = have.Ports
		return have.Ports, nil
	}
	var p ports
	if p.IKE, err = t.freePort(number); err != nil {
		return ports{}, err
	}
	t.taken[number] = ports{IKE: p.IKE}
	if p.NAT, err = t.freePort(number); err != nil {
		return ports{}, err
	}
	t.taken[number] = p
	return p, nil
}

// movePorts gives a tunnel, of which no charon runs, other ports if another program has its own. Those of IKE can't be
// replaced.
func (t *Tunnels) movePorts(r *record, v netstate.VPN) error {
	err := t.portsFree(r.Ports)
	if err == nil || v.IPsec.Listen {
		return err
	}
	if r.Ports, err = t.portsOf(v, record{}, false); err != nil {
		return err
	}
	r.Config = configText(t.folder(r.Name), v.Mark, r.By, r.Ports)
	return nil
}

// freePort is a UDP port that no program uses and no tunnel has. charon shares ports with others (SO_REUSEADDR), and so
// would get one that another charon has.
func (t *Tunnels) freePort(number int) (port int, err error) {
	const tries = 100
	err = t.run.In(func() error {
		for range tries {
			c, err := net.ListenUDP("udp", nil)
			if err != nil {
				return fmt.Errorf("find a free port: %w", err)
			}
			port = c.LocalAddr().(*net.UDPAddr).Port
			if err := c.Close(); err != nil {
				return err
			}
			if !t.has(port) {
				return nil
			}
		}
		return fmt.Errorf("tunnel %d: no UDP port is free", number)
	})
	return port, err
}

// has reports whether a port is that of a tunnel. The caller holds t.mu.
func (t *Tunnels) has(port int) bool {
	for _, p := range t.taken {
		if p.IKE == port || p.NAT == port {
			return true
		}
	}
	return false
}

// portsFree refuses ports that another program uses: charon would take its packets.
func (t *Tunnels) portsFree(p ports) error {
	return t.run.In(func() error {
		for _, port := range []int{p.IKE, p.NAT} {
			c, err := net.ListenUDP("udp", &net.UDPAddr{Port: port})
			if err != nil {
				return fmt.Errorf("another program uses UDP port %d: %w", port, err)
			}
			if err := c.Close(); err != nil {
				return err
			}
		}
		return nil
	})
}

// lastWords are the end of what a charon has printed and logged, for an error.
func (t *Tunnels) lastWords(name string) string {
	const maxWords = 1 << 10
	words := ""
	for _, file := range []string{outFile, logFile} {
		f, err := openOwn(filepath.Join(t.folder(name), file), os.O_RDONLY)
		if err != nil {
			continue
		}
		b := make([]byte, maxWords)
		st, err := f.Stat()
		if err == nil {
			n, _ := f.ReadAt(b, max(0, st.Size()-maxWords)) // io.EOF is the end
			b = b[:n]
		}
		if f.Close(); err == nil && len(b) > 0 {
			words += "; " + strings.Join(strings.FieldsFunc(string(b), isNewline), "; ")
		}
	}
	return words
}

func isNewline(r rune) bool { return r == '\n' }
