package nodelink

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"edgespan/platform/pki"
)

// A node that was dark while its certificate ended, or while the fleet's CA was rotated, or both, says
// what an admin has to do, and is the same node once it has joined with his token.
func TestANodeThatWasDarkJoinsAnew(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, c := range []struct {
		name    string
		dark    time.Duration
		rotated bool
		says    string
	}{
		{"its certificate ended", year, false, "needs re-join: the node's certificate expired at "},
		{"its certificate ended, and the CA is another", year, true, "needs re-join: the node's certificate expired at "},
		{"the CA is another", 24 * time.Hour, true, "the controller's certificate is signed by an unknown CA: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			dir := t.TempDir()
			serve := func() {
				t.Helper()
				ca, err := pki.Open(pki.Options{Dir: dir, Names: []string{"127.0.0.1"}, Now: r.clock.now, Revoked: r.revoked})
				if err != nil {
					t.Fatal(err)
				}
				r.ca = ca
				r.serve(t, ServerOptions{Authority: ca, Handler: r, Now: r.clock.now})
			}
			serve()
			cred := r.fresh(t)
			if err := join(r, r.token(t, "edge-1", time.Hour), "edge-1", cred, r.ca.Pin()); err != nil {
				t.Fatal(err)
			}
			before := r.run(t, cred)
			id := take(t, r.up).h.Node
			before.stop()
			r.clock.move(c.dark)
			if c.rotated {
				_, err := pki.NextCA(dir, r.clock.now())
				for _, step := range []func(string) (pki.Pin, error){pki.SwitchCA, pki.DropCA} {
					if err == nil {
						_, err = step(dir)
					}
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			serve()
			core, logs := observer.New(zapcore.InfoLevel)
			back := r.run(t, cred, func(o *ClientOptions) { o.Log = zap.New(core) })
			var said observer.LoggedEntry
			until(t, "the node says why it can't connect", func() bool {
				for _, e := range logs.FilterMessage("node link is down").All() {
					said = e
				}
				return said.Message != ""
			})
			text := said.ContextMap()["error"]
			if s, _ := text.(string); said.Level != zap.ErrorLevel || !strings.HasPrefix(s, c.says) ||
				!strings.Contains(s, "edgespan nodes replace NAME") {
				t.Errorf("%s: %v, want %s", said.Level, text, c.says)
			}
			if back.stop(); len(r.up) > 0 {
				t.Error("it was let in")
			}
			if err := join(r, r.token(t, "edge-1", time.Hour), "edge-1", cred, r.ca.Pin()); err != nil {
				t.Fatal(err)
			}
			r.run(t, cred)
			if got := take(t, r.up).h.Node; got != id {
				t.Errorf("it is node %s, and was %s", got, id)
			}
		})
	}
}
