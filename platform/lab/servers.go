package lab

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/miekg/dns"
)

// ChildCommand is the first argument of a process that runs ChildMain.
const ChildCommand = "demo-isp"

// childReady is what a child prints once it listens.
const childReady = "ready"

// startDeadline bounds the start of a child or of the daemon's process.
const startDeadline = 10 * time.Second

// maxBody bounds what the HTTP servers read of a request's body, in bytes.
const maxBody = 1 << 20

// ServerOptions configure the servers of one child process.
type ServerOptions struct {
	DNS   string                // host:port, UDP and TCP; "" for none
	Names map[string]netip.Addr // names of the DNS server; other names do not exist
	HTTP  []string              // host:port each
	Text  string                // begins the answer of the HTTP servers; the client's address follows
}

// HTTPServer starts an HTTP server in a namespace ("app-web"), as a process that lives until Down. It answers "text,
// you are IP:PORT".
func (l *Lab) HTTPServer(ctx context.Context, short, addr, text string) error {
	return l.startServers(ctx, short, ServerOptions{HTTP: []string{addr}, Text: text})
}

// startServers runs a child in a namespace and returns when it listens.
func (l *Lab) startServers(ctx context.Context, short string, o ServerOptions) error {
	argv := append([]string{"netns", "exec", l.NS(short)}, l.child...)
	argv = append(argv, o.args()...)
	cmd := exec.Command("ip", argv...) //nolint:noctx // constant argv; it outlives ctx
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	said, err := os.OpenFile(filepath.Join(l.Dir, "servers.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start servers in %s: %w", short, err)
	}
	defer func() { _ = said.Close() }() // the child has its own
	cmd.Stderr = said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start servers in %s: %w", short, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start servers in %s: %w", short, err)
	}
	first := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n')
		first <- strings.TrimSpace(line)
		_ = cmd.Wait() // Down ends it
	}()
	select {
	case line := <-first:
		if line == childReady {
			return nil
		}
		text, _ := os.ReadFile(said.Name())
		return fmt.Errorf("start servers in %s: ended at once: %s", short, strings.TrimSpace(string(text)))
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(startDeadline):
		err = fmt.Errorf("not ready in %s", startDeadline)
	}
	return fmt.Errorf("start servers in %s: %w", short, errors.Join(err, cmd.Process.Kill()))
}

func (o ServerOptions) args() []string {
	var args []string
	if o.DNS != "" {
		args = append(args, "--dns", o.DNS)
	}
	for name, ip := range o.Names {
		args = append(args, "--name", name+"="+ip.String())
	}
	for _, a := range o.HTTP {
		args = append(args, "--http", a)
	}
	return append(args, "--text", o.Text)
}

// ChildMain runs a child process: it serves as args (after ChildCommand) say, writes "ready" to out once it listens,
// and returns an exit code.
func ChildMain(args []string, out, errOut io.Writer) int {
	o := ServerOptions{Names: map[string]netip.Addr{}}
	fs := flag.NewFlagSet(ChildCommand, flag.ContinueOnError)
	fs.SetOutput(errOut)
	fs.StringVar(&o.DNS, "dns", "", "DNS server's host:port")
	fs.StringVar(&o.Text, "text", "", "beginning of an HTTP answer")
	fs.Func("http", "HTTP server's host:port", func(v string) error { o.HTTP = append(o.HTTP, v); return nil })
	fs.Func("name", "NAME=IP that the DNS server knows", func(v string) error {
		name, text, _ := strings.Cut(v, "=")
		ip, err := netip.ParseAddr(text)
		o.Names[name] = ip
		return err
	})
	if err := fs.Parse(args); err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ready := func() { fmt.Fprintln(out, childReady) }
	if err := Serve(ctx, o, ready); err != nil {
		fmt.Fprintln(errOut, err)
		return 1
	}
	return 0
}

// Serve serves until ctx ends and calls ready once every socket listens.
func Serve(ctx context.Context, o ServerOptions, ready func()) error {
	ended := make(chan error, 2+len(o.HTTP))
	var lc net.ListenConfig
	if o.DNS != "" {
		handler := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
			if !silent(q) {
				_ = w.WriteMsg(o.reply(q))
			}
		})
		pc, err := lc.ListenPacket(ctx, "udp", o.DNS)
		if err != nil {
			return err
		}
		udp := &dns.Server{PacketConn: pc, Handler: handler}
		l, err := lc.Listen(ctx, "tcp", o.DNS)
		if err != nil {
			return err
		}
		tcp := &dns.Server{Listener: l, Handler: handler}
		go func() { ended <- udp.ActivateAndServe() }()
		go func() { ended <- tcp.ActivateAndServe() }()
	}
	for _, addr := range o.HTTP {
		l, err := lc.Listen(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		srv := &http.Server{Handler: o.page(), ReadHeaderTimeout: 5 * time.Second}
		go func() { ended <- srv.Serve(l) }()
	}
	ready()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}

func (o ServerOptions) page() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close") // each request of a test is a separate flow
		// A client may stop sending its body when the answer comes, so the answer waits for all of it.
		_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, maxBody))
		_, _ = fmt.Fprintf(w, "%s, you are %s\n", o.Text, r.RemoteAddr)
	})
}

// silent reports whether a query gets no answer, like one for a domain whose servers are down.
func silent(q *dns.Msg) bool {
	return len(q.Question) == 1 && dns.IsSubDomain(SilentDomain+".", q.Question[0].Name)
}

// reply answers A queries from Names; other names do not exist.
func (o ServerOptions) reply(q *dns.Msg) *dns.Msg {
	m := new(dns.Msg)
	m.SetReply(q)
	m.Authoritative = true
	if len(q.Question) != 1 {
		m.Rcode = dns.RcodeFormatError
		return m
	}
	asked := q.Question[0]
	ip, known := o.Names[strings.ToLower(strings.TrimSuffix(asked.Name, "."))]
	switch {
	case !known:
		m.Rcode = dns.RcodeNameError
	case asked.Qtype == dns.TypeA:
		hdr := dns.RR_Header{Name: asked.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}
		m.Answer = append(m.Answer, &dns.A{Hdr: hdr, A: slices.Clone(ip.AsSlice())})
	}
	return m
}
