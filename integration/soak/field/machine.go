package field

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"edgespan/integration/soak/guest"
	"edgespan/integration/soak/model"
)

// machine is a node in a virtual machine. Its disk lives on when its power is cut.
type machine struct {
	node    int
	dir     string // its disk, lines and what it leaves for the host
	payload string
	img     image
	accel   string
	// keepsTables means that its kernel keeps a daemon's tables of nftables from other programs (docs/operations.md).
	keepsTables bool

	mu   sync.Mutex // of all below
	qemu *exec.Cmd
	line *line
}

func (m *machine) out() string          { return filepath.Join(m.dir, "out") }
func (m *machine) console() string      { return filepath.Join(m.dir, "console.log") }
func (m *machine) path(n string) string { return filepath.Join(m.dir, n) }

// guestPath and wirePath are the ends of the link between a machine and the wire of a segment.
func (m *machine) guestPath(segment int) string { return m.path(fmt.Sprintf("nic%d", segment)) }
func (m *machine) wirePath(segment int) string  { return m.path(fmt.Sprintf("wire%d", segment)) }

// nicMAC is the address of a machine's link.
func nicMAC(node, segment int) string { return fmt.Sprintf("52:54:00:00:%02x:%02x", segment, node) }

// prepare makes a machine's disk.
func (m *machine) prepare(ctx context.Context) error {
	if err := os.MkdirAll(m.out(), 0o755); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", m.img.root,
		m.path("disk")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("qemu-img: %w: %s", err, out)
	}
	return nil
}

// processor is the model of the guest's processor. What newer ones can do costs an emulated one more than it saves: a
// program that starts and ends takes 30 ms on a Westmere, which has AES, and 60 ms with all that can be emulated.
func (m *machine) processor() string {
	if m.accel == "tcg" {
		return "Westmere"
	}
	return "max"
}

// boot starts a machine, and waits until its agent answers.
func (m *machine) boot(ctx context.Context) error {
	agent := m.path("agent")
	for _, old := range []string{agent, m.guestPath(0), m.guestPath(1)} {
		if err := os.Remove(old); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	args := []string{"-accel", m.accel, "-cpu", m.processor(), "-smp", "1", "-m", "768", "-nodefaults", "-nographic",
		"-no-reboot", "-kernel", m.img.kernel, "-initrd", m.img.initrd,
		"-append", "root=/dev/vda rw console=ttyS0 quiet mitigations=off net.ifnames=0 panic=5",
		"-chardev", "file,id=console,append=on,path=" + m.console(), "-serial", "chardev:console",
		"-drive", "if=virtio,format=qcow2,cache=writeback,file=" + m.path("disk"),
		"-drive", "if=virtio,format=raw,readonly=on,file=" + m.payload,
		"-device", "virtio-rng-pci", "-device", "virtio-serial-pci",
		"-chardev", "socket,id=agent,server=on,wait=off,path=" + agent,
		"-device", "virtserialport,chardev=agent,name=" + guest.AgentPort,
		"-virtfs", "local,mount_tag=out,security_model=none,path=" + m.out()}
	for segment := range model.Segments {
		args = append(args, "-netdev", fmt.Sprintf("dgram,id=n%d,local.type=unix,local.path=%s,remote.type=unix,"+
			"remote.path=%s", segment, m.guestPath(segment), m.wirePath(segment)),
			"-device", fmt.Sprintf("virtio-net-pci,netdev=n%d,mac=%s", segment, nicMAC(m.node, segment)))
	}
	cmd := exec.Command("qemu-system-x86_64", args...) // #nosec G204 -- our own paths
	log, err := os.OpenFile(m.path("qemu.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := start(cmd); err != nil {
		return err
	}
	l, err := dialLine(ctx, agent, 4*time.Minute)
	if err != nil {
		_ = cmd.Process.Kill()
		return fmt.Errorf("node %d does not answer: %w; its console ends with:\n%s", m.node, err, tail(m.console(), 2000))
	}
	m.mu.Lock()
	m.qemu, m.line = cmd, l
	m.mu.Unlock()
	return nil
}

// cut ends a machine at once: what its kernel has not sent to the disk is lost.
func (m *machine) cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.qemu != nil {
		_ = m.qemu.Process.Kill()
		_ = m.qemu.Wait()
		m.line.cut()
		m.qemu = nil
	}
}

func tail(path string, n int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-n):])
}

// current returns the machine's line; it is replaced at each boot.
func (m *machine) current() *line {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.line
}

// result is what a command of a guest left.
type result struct {
	Code int
	Out  string
}

// run runs a command in the guest to its end.
func (m *machine) run(ctx context.Context, argv ...string) (result, error) {
	p, err := m.current().start(argv)
	if err != nil {
		return result{}, err
	}
	var out bytes.Buffer
	for {
		select {
		case <-ctx.Done():
			p.kill()
			go func() { // or the line waits for a reader
				for range p.lines {
				}
			}()
			return result{-1, out.String()}, fmt.Errorf("%s: %w", strings.Join(argv, " "), ctx.Err())
		case text, ok := <-p.lines:
			if !ok {
				return result{p.code, strings.TrimSpace(out.String())}, p.err
			}
			out.WriteString(text + "\n")
		}
	}
}

// shLimit is how long a script may take in a guest that works: its slowest commands hang for a minute, a few times.
const shLimit = 15 * time.Minute

// sh runs a script in the guest that must succeed.
func (m *machine) sh(ctx context.Context, script string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, shLimit)
	defer cancel()
	r, err := m.run(ctx, "sh", "-c", script)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("exit code %d: %s", r.Code, r.Out)
	}
	if err != nil {
		return r.Out, fmt.Errorf("node %d: %s: %w", m.node, script, err)
	}
	return r.Out, nil
}

// line is the host's end of a line to an agent.
type line struct {
	conn    net.Conn
	sending sync.Mutex // of out; reading never waits for it
	out     *json.Encoder
	mu      sync.Mutex // of all below
	next    int
	runs    map[int]*process
	err     error
	done    chan struct{}
}

// process is one that runs in a guest. lines ends when it has ended, and then code and err are set.
type process struct {
	line  *line
	id    int
	lines chan string
	code  int
	err   error
}

var errCut = errors.New("the line to the guest is cut")

// dialLine waits until an agent answers.
func dialLine(ctx context.Context, path string, limit time.Duration) (*line, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var d net.Dialer
	for {
		conn, err := d.DialContext(ctx, "unix", path)
		if err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			time.Sleep(100 * time.Millisecond)
			continue
		}
		return greet(ctx, conn)
	}
}

// greet waits until the agent at the other end is ready.
func greet(ctx context.Context, conn net.Conn) (*line, error) {
	l := &line{conn: conn, out: json.NewEncoder(conn), runs: map[int]*process{}, done: make(chan struct{})}
	in := json.NewDecoder(conn)
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for m := (guest.Message{}); m.Data != agentReady; {
		if err := in.Decode(&m); err != nil {
			return nil, errors.Join(ctx.Err(), err, conn.Close())
		}
	}
	if !stop() {
		return nil, errors.Join(ctx.Err(), conn.Close())
	}
	go l.read(in)
	return l, nil
}

// agentReady is the first that an agent says.
const agentReady = "ready"

// read passes on what the agent tells. When the line breaks, all that runs has ended.
func (l *line) read(in *json.Decoder) {
	defer close(l.done)
	for {
		var m guest.Message
		if err := in.Decode(&m); err != nil {
			_ = l.conn.Close()
			break
		}
		if m.ID == 0 && m.Data == agentReady { // it has ended, and started again: it knows of nothing that runs
			l.end(nil)
			continue
		}
		l.mu.Lock()
		p := l.runs[m.ID]
		if m.Op == "exit" {
			delete(l.runs, m.ID)
		}
		l.mu.Unlock()
		switch {
		case p == nil:
		case m.Op == "out":
			p.lines <- m.Data
		case m.Op == "exit":
			p.code = m.Code
			close(p.lines)
		}
	}
	l.end(errCut)
}

// end ends all that runs. With an error, nothing starts any more.
func (l *line) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
	for _, p := range l.runs {
		p.code, p.err = -1, errCut
		close(p.lines)
	}
	clear(l.runs)
}

// cut breaks the line.
func (l *line) cut() {
	_ = l.conn.Close()
	<-l.done
}

func (l *line) start(argv []string) (*process, error) {
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return nil, l.err
	}
	l.next++
	p := &process{line: l, id: l.next, lines: make(chan string, 4096)}
	l.runs[p.id] = p
	l.mu.Unlock()
	l.send(guest.Message{Op: "start", ID: p.id, Argv: argv})
	return p, nil
}

// sendLimit is how long a guest may take nothing.
const sendLimit = 2 * time.Minute

// send tells the agent something. A line that breaks, or whose guest hangs, ends read, and with it all that runs.
func (l *line) send(m guest.Message) {
	l.sending.Lock()
	defer l.sending.Unlock()
	_ = l.conn.SetWriteDeadline(time.Now().Add(sendLimit))
	if l.out.Encode(m) != nil {
		_ = l.conn.Close() // a part of m may be on its way
	}
}

func (p *process) send(op, data string) { p.line.send(guest.Message{Op: op, ID: p.id, Data: data}) }

func (p *process) kill()         { p.send("kill", "") }
func (p *process) tell(s string) { p.send("in", s) }
