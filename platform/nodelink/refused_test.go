package nodelink

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// Who is sent away stands in the log, with the reason and the address.
func TestRefusalsAreLogged(t *testing.T) {
	core, log := observer.New(zapcore.InfoLevel)
	r := newRig(t, func(o *ServerOptions) { o.Log = zap.New(core) })
	has := func(what string, words ...string) {
		t.Helper()
		until(t, what+" in the log", func() bool {
			for _, e := range log.All() {
				fields := e.ContextMap()
				why, _ := fields["why"].(string)
				found := e.Message == what && fields["from"] == "127.0.0.1"
				for _, w := range words {
					found = found && strings.Contains(why, w)
				}
				if found {
					return true
				}
			}
			return false
		})
	}
	join := func(token string) error {
		_, err := Join(t.Context(),
			JoinOptions{Controller: r.addr, Token: token, Name: "edge-1", Pin: r.ca.Pin(), Credentials: r.fresh(t)})
		return err
	}
	token := r.token(t, "edge-1", time.Hour)
	if err := join(token); err != nil {
		t.Fatal(err)
	}
	has("node joined")
	if err := join(token); err == nil {
		t.Error("a token was spent twice")
	}
	has("join refused", "used")

	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	has("connection refused", "TLS")

	r.run(t, newRig(t).joined(t)) // of another CA
	has("connection refused", "certificate")

	r.mu.Lock()
	r.refuse = errors.New("node is not of this fleet")
	r.mu.Unlock()
	r.run(t, r.joined(t))
	has("node disconnected", "not of this fleet")
}

// Who knocks for ever fills no disk: fifty lines, then one a second that counts the others.
func TestRefusalsAreBounded(t *testing.T) {
	core, log := observer.New(zapcore.WarnLevel)
	now := time.Now()
	r := newRefusals(zap.New(core), func() time.Time { return now })
	for range 1000 {
		r.note("x", "a", errors.New("y"))
	}
	if n := log.Len(); n != 50 {
		t.Errorf("%d lines at once", n)
	}
	now = now.Add(time.Second)
	r.note("x", "a", errors.New("y"))
	if all := log.All(); len(all) != 51 || all[50].ContextMap()["left_out"] != int64(950) {
		t.Errorf("the last of %d lines: %v", len(all), all[len(all)-1].ContextMap())
	}
}
