package shell

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"edgespan/pubsub/shellproto"
)

// A member who may only read could fill the log, and with it a disk, by commands that are refused.
func TestRefusedCommandsFillNoLog(t *testing.T) {
	core, logged := observer.New(zap.WarnLevel)
	p := serveLogged(t, zap.New(core))
	p.admin.Store(false)
	for range 3 { // other shells of the same user have no share of their own
		s := p.dial()
		for range 200 {
			var end shellproto.Frame
			if err := s.Do(t.Context(), shellproto.Request{Op: "restart", Args: []string{"monitor"}, Write: true},
				func(f shellproto.Frame) error { end = f; return nil }); err != nil || end.Exit != shellproto.ExitPermission {
				t.Fatalf("a reader restarts an actor: %+v, %v", end, err)
			}
		}
	}
	if n := logged.FilterMessage("command refused").Len(); n < 1 || n > refusalBurst+10 {
		t.Errorf("%d lines of 600 refused commands", n)
	}
}

// Neither do many users of one member, who has a range of user IDs (subuid(5)). What is left out is counted.
func TestRefusalsOfManyUsersAreBoundedAndCounted(t *testing.T) {
	core, logged := observer.New(zap.WarnLevel)
	r, now := newRefusals(zap.New(core)), time.Unix(1e9, 0)
	const users = 20000 // more than buckets are remembered
	for uid := range uint32(users) {
		r.note(shellproto.Who{UID: uid}, "restart", errors.New("not permitted"), now)
	}
	if n := logged.Len(); n != allRefusalBurst {
		t.Errorf("%d lines of %d users at one time, want %d", n, users, allRefusalBurst)
	}
	r.note(shellproto.Who{UID: users}, "restart", errors.New("not permitted"), now.Add(time.Second))
	all := logged.All()
	if left := all[len(all)-1].ContextMap()["left_out"]; left != int64(users-allRefusalBurst) {
		t.Errorf("left out: %v, want %d", left, users-allRefusalBurst)
	}
}
