package scenario

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// logged waits for a line of the controller's log that has all words.
func (o *office) logged(words ...string) {
	o.w.Helper()
	o.w.eventually("a line of the controller with "+strings.Join(words, ", "), func() bool {
		for l := range strings.SplitSeq(o.said(), "\n") {
			has := true
			for _, word := range words {
				has = has && strings.Contains(l, word)
			}
			if has {
				return true
			}
		}
		return false
	})
}

// Invalid joins and requests are refused with a reason, which the client and the controller's log show, and nobody
// else notices.
func TestBadConnectionsAreClosedAndDisturbNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	o := w.member(doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll)))
	accepted := w.accepted()

	// A used join token, a made-up one, and none at all.
	printed := o.run("nodes", "invite", "edge-2").Out
	if r := w.join(printed, "--state-dir", filepath.Join(w.Dir, "edge-2")); r.Code != 0 {
		t.Fatalf("join: %+v", r)
	}
	o.logged(`"msg":"node joined"`, `"name":"edge-2"`)
	r := w.join(printed, "--state-dir", filepath.Join(w.Dir, "thief"))
	if r.Code != 1 || !strings.Contains(r.Err, "refused") || !strings.Contains(r.Err, "token already used") {
		t.Errorf("a replayed token: %+v", r)
	}
	o.logged(`"msg":"join refused"`, `"name":"edge-2"`, `"from":"192.0.2.2"`, "already used")
	if r := w.join(printed, "--state-dir", filepath.Join(w.Dir, "thief"), "--token", "esj_"+
		strings.Repeat("A", 43)); r.Code != 1 || !strings.Contains(r.Err, "refused") {
		t.Errorf("a made up token: %+v", r)
	}
	if _, err := os.Stat(filepath.Join(w.Dir, "thief", "controller.json")); err == nil {
		t.Error("who was refused thinks that it joined")
	}

	// A node of another fleet with this controller's address.
	foreign := w.open("foreign", 9443)
	foreign.remember(foreign.line("CA sha256:"))
	state := filepath.Join(w.Dir, "stranger")
	if r := w.join(foreign.run("nodes", "invite", "stranger").Out, "--state-dir", state); r.Code != 0 {
		t.Fatalf("join: %+v", r)
	}
	member, err := json.Marshal(map[string]string{"controller": o.nodes(), "name": "edge-1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(state, "controller.json"), member, 0o644); err != nil {
		t.Fatal(err)
	}
	stranger := w.daemon("isp", state)
	w.eventually("why the stranger gets no stream", func() bool {
		said, err := os.ReadFile(stranger)
		return err == nil && strings.Contains(string(said), `"msg":"node link is down"`) &&
			strings.Contains(string(said), "certificate")
	})
	o.logged(`"msg":"connection refused"`, `"from":"192.0.2.1"`, "certificate")

	// Too large, and nonsense.
	big := `{"sysParams":{"note":"` + strings.Repeat("x", 17<<20) + `"}}`
	if r := o.with(big, "node", "set", "edge-1", "-f", "-"); r.Code == 0 || !strings.Contains(r.Err, "16 MiB") {
		t.Errorf("a document of 17 MiB: exit %d: %.300s", r.Code, r.Err)
	}
	for _, port := range []string{"8443", "8444"} {
		w.in("isp", "bash", "-c", "yes | head -c 65536 >/dev/tcp/192.0.2.1/"+port+" || true")
	}
	o.logged(`"msg":"connection refused"`, "TLS")
	o.logged(`"logger":"api"`, "TLS handshake error")
	r = o.shell([]string{"curl", "-sk", "-H", "Authorization: Bearer nobody", "https://192.0.2.1:8443/api/v1/fleet/nodes"})
	if !strings.Contains(r.Out, "401") {
		t.Errorf("a made up operator token: %+v", r)
	}
	if audit, err := os.ReadFile(filepath.Join(o.dir, "audit.log")); err != nil ||
		!strings.Contains(string(audit), "401") {
		t.Errorf("the audit log has nothing of it: %v:\n%s", err, lastOf(string(audit), 5))
	}

	// Nobody else noticed.
	o.is("edge-1", "InSync", ready)
	said, err := os.ReadFile(w.NodeLog())
	if err != nil || strings.Contains(string(said), "node link is down") ||
		strings.Count(string(said), "node link is up") != 1 {
		t.Errorf("the stream of edge-1 did not stand all the time: %v", err)
	}
	if got := w.accepted(); got != accepted {
		t.Errorf("edge-1 took %d configs of guests", got-accepted)
	}
	if list := o.ok("nodes", "list", "-o", "name"); strings.Contains(list, "stranger") || strings.Contains(list, "thief") {
		t.Errorf("the fleet has guests:\n%s", list)
	}
}

// daemon starts a node in a namespace on a separate state folder, and returns the name of its log.
func (w *world) daemon(short, state string) (log string) {
	w.Helper()
	log = state + ".log"
	said, err := os.Create(log)
	if err != nil {
		w.Fatal(err)
	}
	defer said.Close()
	cmd := exec.CommandContext(w.ctx, "ip", "netns", "exec", w.NS(short), w.Binary, "node",
		"--config", state+".json", "--state-dir", state, "--run-dir", state+".run")
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	return log
}
