package serve

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edgespan/cmd/edgespan-controller/ctltest"
	"edgespan/cmd/term"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/platform/pki"
)

func TestFirstAndSecondStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	c := program.Start(t, dir)
	pin := c.Pin()
	for _, want := range []string{"admin token: " + filepath.Join(dir, "admin.token"),
		"edgespan join --controller 127.0.0.1:", "--ca-sha256 " + pin} {
		if !strings.Contains(c.Err.String(), want) {
			t.Errorf("stderr lacks %q:\n%s", want, c.Err)
		}
	}
	for _, file := range []string{"admin.token", "mask.key", "ca.pem", "store.db", "audit.log"} {
		info, err := os.Stat(filepath.Join(dir, file))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	token := c.Token()
	if strings.Contains(c.Err.String(), token) {
		t.Error("the admin token is on stderr")
	}
	if _, err := c.Client(pin, token).Nodes(t.Context()); err != nil {
		t.Errorf("ask with the token: %v", err)
	}
	if _, err := c.Client(pin, "").Nodes(t.Context()); err == nil {
		t.Error("nobody was let in without a token")
	}
	if code := c.End(); code != term.ExitOK {
		t.Errorf("it ended with %d:\n%s", code, c.Err)
	}

	again := program.Start(t, dir)
	for _, part := range []string{"admin token", "edgespan join", "CA sha256"} {
		if strings.Contains(again.Err.String(), part) {
			t.Errorf("the second start says %q:\n%s", part, again.Err)
		}
	}
	if again.Token() != token {
		t.Error("the second start made another token")
	}
	if _, err := again.Client(pin, token).Nodes(t.Context()); err != nil {
		t.Errorf("the old token at the second start, by the old pin: %v", err)
	}
}

// TestAFirstStartThatWasCutOff has a token in the store and none in the folder.
func TestAFirstStartThatWasCutOff(t *testing.T) {
	dir := t.TempDir()
	c := program.Start(t, dir)
	pin, lost := c.Pin(), c.Token()
	c.End()
	if err := os.Remove(filepath.Join(dir, "admin.token")); err != nil {
		t.Fatal(err)
	}
	again := program.Start(t, dir)
	if _, err := again.Client(pin, again.Token()).Nodes(t.Context()); err != nil {
		t.Errorf("the new token: %v", err)
	}
	// A replica hears from the store that a token is gone.
	client := again.Client(pin, lost)
	for late := time.Now().Add(ctltest.Timeout); ; time.Sleep(5 * time.Millisecond) {
		if _, err := client.Nodes(t.Context()); err != nil {
			break
		}
		if time.Now().After(late) {
			t.Fatal("the token that was lost is still good")
		}
	}
}

func TestTLSIsNotForTheWrongPin(t *testing.T) {
	c := program.Start(t, t.TempDir())
	other := program.Start(t, t.TempDir())
	if _, err := c.Client(other.Pin(), c.Token()).Nodes(t.Context()); err == nil {
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
	c := program.Start(t, t.TempDir(), "--auth", "none")
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
		code, _, said := program.Command(t, "--data-dir", filepath.Join(t.TempDir(), "d"), "--auth=none", "--listen", listen,
			"--node-listen", "127.0.0.1:0")
		if code != term.ExitUsage || !strings.Contains(said, "loopback") {
			t.Errorf("--listen %s: %d, %s", listen, code, said)
		}
	}
}

func TestASecondControllerOfOneFolder(t *testing.T) {
	dir := t.TempDir()
	program.Start(t, dir)
	code, _, said := program.Command(t, "--data-dir", dir, "--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0")
	if code != term.ExitConflict || !strings.Contains(said, filepath.Join(dir, "lock")) {
		t.Errorf("%d: %s", code, said)
	}
}

func TestAuditAndItsRotation(t *testing.T) {
	dir := t.TempDir()
	c := program.Start(t, dir)
	log := filepath.Join(dir, "audit-admins.log")
	client := c.Client(c.Pin(), c.Token())
	invite := func(node string) {
		if _, err := client.Invite(t.Context(), node, time.Hour, false); err != nil {
			t.Fatal(err)
		}
	}
	invite("ulm-1")
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	c.HUP <- os.Interrupt
	c.HUP <- os.Interrupt // taken once the first was
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
		if strings.Contains(string(text), c.Token()) || strings.Contains(string(text), "esj_") {
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
	c := program.Launch(t, t.TempDir(), map[string]string{"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "30000"})
	want := func(state string) {
		t.Helper()
		select {
		case got := <-said:
			if got != state {
				t.Errorf("%s: %s is wanted", got, state)
			}
		case <-time.After(ctltest.Timeout):
			t.Fatalf("no %s\n%s", state, c.Err)
		}
	}
	want("READY=1")
	want("WATCHDOG=1")
	want("WATCHDOG=1")
	c.End()
	for state := ""; state != "STOPPING=1"; {
		select {
		case state = <-said:
		case <-time.After(ctltest.Timeout):
			t.Fatal("it does not say that it stops")
		}
	}
}

func TestTheCertificateHasTheNamesOfNodeHost(t *testing.T) {
	c := program.Start(t, t.TempDir(), "--node-host", "fleet.test,192.0.2.7")
	if line := c.Err.Line(t, "edgespan join", c.Ended); !strings.Contains(line, "--controller fleet.test:") {
		t.Errorf("the join command is %s", line)
	}
	pin, err := pki.ParsePin(c.Pin())
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
