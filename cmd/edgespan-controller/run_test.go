package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"edgespan/cmd/term"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/platform/pki"
)

// patience bounds every wait of a test; nothing takes that long but on a machine that is busy.
const patience = 60 * time.Second

// watched is output that a test waits for.
type watched struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // closed with each write
}

func newWatched() *watched { return &watched{more: make(chan struct{})} }

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.more)
	w.more = make(chan struct{})
	return w.text.Write(p)
}

func (w *watched) String() string {
	text, _ := w.now()
	return text
}

func (w *watched) now() (string, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String(), w.more
}

// line waits for a line that has a text, and returns it; "" if ended is closed before.
func (w *watched) line(t *testing.T, part string, ended <-chan struct{}) string {
	t.Helper()
	late := time.After(patience)
	for {
		text, more := w.now()
		for l := range strings.SplitSeq(text, "\n") {
			if strings.Contains(l, part) {
				return l
			}
		}
		select {
		case <-more:
		case <-ended:
			if text, _ := w.now(); strings.Contains(text, part) {
				continue
			}
			return ""
		case <-late:
			t.Fatalf("no %q in\n%s", part, text)
		}
	}
}

// controllerRun is a controller of this process.
type controllerRun struct {
	t          *testing.T
	dir        string
	out, err   *watched
	hup        chan os.Signal
	stop       context.CancelFunc
	ended      chan struct{}
	code       int
	API, Nodes string // addresses
}

// started runs a controller on a folder until it says that it runs.
func started(t *testing.T, dir string, args ...string) *controllerRun {
	t.Helper()
	c := launched(t, dir, nil, args...)
	line := c.err.line(t, `"msg":"controller runs"`, c.ended)
	if line == "" {
		t.Fatalf("it ended with %d:\n%s", c.code, c.err)
	}
	var said struct{ API, Nodes string }
	if err := json.Unmarshal([]byte(line), &said); err != nil {
		t.Fatal(err)
	}
	c.API, c.Nodes = said.API, said.Nodes
	return c
}

// launched runs a controller on a folder.
func launched(t *testing.T, dir string, env map[string]string, args ...string) *controllerRun {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &controllerRun{t: t, dir: dir, out: newWatched(), err: newWatched(), hup: make(chan os.Signal), stop: cancel,
		ended: make(chan struct{})}
	a := &app{
		Streams: term.Streams{In: strings.NewReader(""), Out: c.out, Err: c.err,
			Env: func(name string) string { return env[name] }},
		host: host{terminate: cancel, reboot: 10 * time.Millisecond, command: thisHost().command},
		hup:  c.hup, tree: startTree,
	}
	args = append([]string{"--data-dir", dir, "--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0"}, args...)
	go func() {
		c.code = runApp(ctx, a, args)
		close(c.ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-c.ended
		if t.Failed() {
			t.Logf("controller said:\n%s", c.err)
		}
	})
	return c
}

// end ends it as SIGTERM does, and returns its exit code.
func (c *controllerRun) end() int {
	c.stop()
	select {
	case <-c.ended:
	case <-time.After(patience):
		c.t.Fatalf("it did not end:\n%s", c.err)
	}
	return c.code
}

// token is the administrator's.
func (c *controllerRun) token() string {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, "admin.token"))
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// pin is the one that the first start printed.
func (c *controllerRun) pin() string {
	c.t.Helper()
	_, pin, found := strings.Cut(c.err.line(c.t, "CA sha256:", c.ended), "CA sha256:")
	if !found {
		c.t.Fatalf("no pin in\n%s", c.err)
	}
	return strings.TrimSpace(pin)
}

// client is the administrator's, by the pin.
func (c *controllerRun) client(pin, token string) *fleetapi.Client {
	c.t.Helper()
	p, err := pki.ParsePin(pin)
	if err != nil {
		c.t.Fatal(err)
	}
	tr := &http.Transport{TLSClientConfig: pki.PinnedTLS(p, "127.0.0.1", time.Now)}
	client, err := fleetapi.NewClient(fleetapi.Options{URL: "https://" + c.API, Token: token, Transport: tr})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(client.Close)
	return client
}

// command runs another command of the program to its end.
func command(t *testing.T, args ...string) (code int, out, err string) {
	t.Helper()
	var o, e bytes.Buffer
	s := term.Streams{In: strings.NewReader(""), Out: &o, Err: &e, Env: func(string) string { return "" }}
	code = run(t.Context(), s, args)
	return code, o.String(), e.String()
}

func TestFirstAndSecondStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	c := started(t, dir)
	pin := c.pin()
	for _, want := range []string{"admin token: " + filepath.Join(dir, "admin.token"),
		"edgespan join --controller 127.0.0.1:", "--ca-sha256 " + pin} {
		if !strings.Contains(c.err.String(), want) {
			t.Errorf("stderr lacks %q:\n%s", want, c.err)
		}
	}
	for _, file := range []string{"admin.token", "mask.key", "ca.pem", "store.db", "audit.log"} {
		info, err := os.Stat(filepath.Join(dir, file))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	token := c.token()
	if strings.Contains(c.err.String(), token) {
		t.Error("the admin token is on stderr")
	}
	if _, err := c.client(pin, token).Nodes(t.Context()); err != nil {
		t.Errorf("ask with the token: %v", err)
	}
	if _, err := c.client(pin, "").Nodes(t.Context()); err == nil {
		t.Error("nobody was let in without a token")
	}
	if code := c.end(); code != term.ExitOK {
		t.Errorf("it ended with %d:\n%s", code, c.err)
	}

	again := started(t, dir)
	for _, part := range []string{"admin token", "edgespan join", "CA sha256"} {
		if strings.Contains(again.err.String(), part) {
			t.Errorf("the second start says %q:\n%s", part, again.err)
		}
	}
	if again.token() != token {
		t.Error("the second start made another token")
	}
	if _, err := again.client(pin, token).Nodes(t.Context()); err != nil {
		t.Errorf("the old token at the second start, by the old pin: %v", err)
	}
}

// TestAFirstStartThatWasCutOff has a token in the store and none in the folder.
func TestAFirstStartThatWasCutOff(t *testing.T) {
	dir := t.TempDir()
	c := started(t, dir)
	pin, lost := c.pin(), c.token()
	c.end()
	if err := os.Remove(filepath.Join(dir, "admin.token")); err != nil {
		t.Fatal(err)
	}
	again := started(t, dir)
	if _, err := again.client(pin, again.token()).Nodes(t.Context()); err != nil {
		t.Errorf("the new token: %v", err)
	}
	// A replica hears from the store that a token is gone.
	client := again.client(pin, lost)
	for late := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if _, err := client.Nodes(t.Context()); err != nil {
			break
		}
		if time.Now().After(late) {
			t.Fatal("the token that was lost is still good")
		}
	}
}

func TestTLSIsNotForTheWrongPin(t *testing.T) {
	c := started(t, t.TempDir())
	other := started(t, t.TempDir())
	if _, err := c.client(other.pin(), c.token()).Nodes(t.Context()); err == nil {
		t.Error("a client with another controller's pin was served")
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+c.API+"/livez", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := http.DefaultClient.Do(req); err == nil {
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Error("plain HTTP was answered")
		}
	}
}

func TestAuthNone(t *testing.T) {
	c := started(t, t.TempDir(), "--auth", "none")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+c.API+"/api/v1/fleet/nodes", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", resp.Status, body)
	}
	for _, listen := range []string{"0.0.0.0:0", "[::]:0", ":0"} {
		code, _, said := command(t, "--data-dir", filepath.Join(t.TempDir(), "d"), "--auth=none", "--listen", listen,
			"--node-listen", "127.0.0.1:0")
		if code != term.ExitUsage || !strings.Contains(said, "loopback") {
			t.Errorf("--listen %s: %d, %s", listen, code, said)
		}
	}
}

func TestASecondControllerOfOneFolder(t *testing.T) {
	dir := t.TempDir()
	started(t, dir)
	code, _, said := command(t, "--data-dir", dir, "--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0")
	if code != term.ExitConflict || !strings.Contains(said, filepath.Join(dir, "lock")) {
		t.Errorf("%d: %s", code, said)
	}
	if code, _, said := command(t, "export", "--data-dir", dir, "--cfg-dir", t.TempDir()); code != term.ExitConflict {
		t.Errorf("an offline command beside it: %d: %s", code, said)
	}
}

func TestExitCodes(t *testing.T) {
	for args, want := range map[string]int{
		"version":                        term.ExitOK,
		"--help":                         term.ExitOK,
		"serve":                          term.ExitUsage,
		"--nonsense":                     term.ExitUsage,
		"--auth x":                       term.ExitUsage,
		"version extra":                  term.ExitUsage,
		"import":                         term.ExitUsage,
		"import --cfg-dir x -o yaml":     term.ExitUsage,
		"token add":                      term.ExitUsage,
		"token add x --role king":        term.ExitUsage,
		"invite n --life -1s":            term.ExitUsage,
		"import --cfg-dir /nonexistent":  term.ExitNotFound,
		"token add x --controller ftp:x": term.ExitUsage,
		"token add x --controller http://127.0.0.1:1":                               term.ExitUnreachable,
		"export --cfg-dir x --controller http://127.0.0.1:1 --data-dir y":           term.ExitUsage,
		"token add x --controller http://127.0.0.1:1 --token-file /nonexistent":     term.ExitNotFound,
		"token add x --controller http://127.0.0.1:1 --ca-sha256 00":                term.ExitUsage,
		"token add x --controller http://127.0.0.1:1 --ca-file /nonexistent/ca.pem": term.ExitNotFound,
	} {
		if code, _, said := command(t, strings.Fields(args)...); code != want {
			t.Errorf("%s: %d, want %d: %s", args, code, want, said)
		}
	}
	for _, c := range []struct {
		err  error
		want int
	}{{errors.New("x"), term.ExitError}, {context.DeadlineExceeded, term.ExitTimeout},
		{os.ErrPermission, term.ExitPermission}} {
		if got := term.ExitCode(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}

func TestAuditAndItsRotation(t *testing.T) {
	dir := t.TempDir()
	c := started(t, dir)
	log := filepath.Join(dir, "audit-admins.log")
	client := c.client(c.pin(), c.token())
	invite := func(node string) {
		if _, err := client.Invite(t.Context(), node, time.Hour, false); err != nil {
			t.Fatal(err)
		}
	}
	invite("ulm-1")
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	c.hup <- os.Interrupt
	c.hup <- os.Interrupt // taken once the first was
	invite("ulm-2")
	for file, part := range map[string]string{log + ".1": "ulm-1", log: "ulm-2"} {
		text, err := os.ReadFile(file)
		// an admin's act: what is to be done, and what came of it
		begun, done, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
		if err != nil || strings.Count(string(text), "\n") != 2 || !strings.Contains(done, part) ||
			!strings.Contains(begun, `"status":0,`) || !strings.Contains(begun, `"begun":true`) {
			t.Errorf("%s: %s, %v", file, text, err)
		}
		var e fleetapi.Entry
		if err := json.Unmarshal([]byte(done), &e); err != nil || !strings.HasPrefix(e.Caller, "admin@") ||
			e.Role != fleetapi.Admin || e.Status/100 != 2 {
			t.Errorf("%+v, %v", e, err)
		}
		if strings.Contains(string(text), c.token()) || strings.Contains(string(text), "esj_") {
			t.Errorf("a token is in the audit log: %s", text)
		}
	}
}

// notified collects what is said to systemd.
func notified(t *testing.T) (address string, said chan string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "sd") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	address = filepath.Join(dir, "s")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	said = make(chan string, 1000)
	go func() {
		buffer := make([]byte, 1000)
		for {
			n, err := conn.Read(buffer)
			if err != nil {
				return
			}
			said <- string(buffer[:n])
		}
	}()
	return address, said
}

func TestSystemdIsTold(t *testing.T) {
	address, said := notified(t)
	c := launched(t, t.TempDir(), map[string]string{"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "30000"})
	want := func(state string) {
		t.Helper()
		select {
		case got := <-said:
			if got != state {
				t.Errorf("%s: %s is wanted", got, state)
			}
		case <-time.After(patience):
			t.Fatalf("no %s\n%s", state, c.err)
		}
	}
	want("READY=1")
	want("WATCHDOG=1")
	want("WATCHDOG=1")
	c.end()
	for state := ""; state != "STOPPING=1"; {
		select {
		case state = <-said:
		case <-time.After(patience):
			t.Fatal("it does not say that it stops")
		}
	}
}

func TestTheCertificateHasTheNamesOfNodeHost(t *testing.T) {
	c := started(t, t.TempDir(), "--node-host", "fleet.test,192.0.2.7")
	if line := c.err.line(t, "edgespan join", c.ended); !strings.Contains(line, "--controller fleet.test:") {
		t.Errorf("the join command is %s", line)
	}
	pin, err := pki.ParsePin(c.pin())
	if err != nil {
		t.Fatal(err)
	}
	for host, good := range map[string]bool{"fleet.test": true, "192.0.2.7": true, "127.0.0.1": true, "localhost": true,
		"other.test": false} {
		tr := &http.Transport{TLSClientConfig: pki.PinnedTLS(pin, host, time.Now)}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+c.API+"/livez", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(req)
		if err == nil {
			resp.Body.Close()
		}
		if (err == nil) != good {
			t.Errorf("%s: %v", host, err)
		}
		tr.CloseIdleConnections()
	}
}
