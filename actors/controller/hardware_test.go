package controller

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"edgespan/config/fleet/nodeproto"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/layers"
)

// unread is a folder of base files that can't be read at times.
type unread struct {
	*base
	fails atomic.Bool
	reads atomic.Int64
}

func (u *unread) Read(c layers.Choice) (layers.Set, error) {
	u.reads.Add(1)
	if u.fails.Load() {
		return layers.Set{}, errors.New("open base: too many open files")
	}
	return u.base.Read(c)
}

func TestABaseFileThatCannotBeReadIsReadAgain(t *testing.T) {
	t.Parallel()
	onRig(t, func(r *rig) {
		u := &unread{base: r.base}
		u.fails.Store(true)
		r.change = func(o *Options) { o.Base = u }
		c := r.start("a")
		r.node(c, "n1")
		r.pass(time.Hour)
		if s, why := r.state(c, "n1"); s == "InSync" {
			t.Fatalf("%s %s", s, why)
		}
		if n := u.reads.Load(); n < 30 || n > 80 {
			t.Errorf("read %d times in an hour: once a minute is meant", n)
		}
		u.fails.Store(false)
		r.pass(2 * time.Minute)
		if s, why := r.state(c, "n1"); s != "InSync" {
			t.Errorf("the file is there again: %s %s", s, why)
		}
	})
}

// Once a board is forgotten, every role sees what its metadata called secret: only an admin may do that.
func TestOnlyAnAdminTakesAMaskAway(t *testing.T) {
	t.Parallel()
	bob := fleetapi.Caller{Name: "bob", Role: fleetapi.Operator}
	for secret, want := range map[string]error{"true": fleetapi.ErrRole, "false": nil} {
		onRig(t, func(r *rig) {
			c := r.start("a")
			n := r.join(c, "n1")
			n.board, n.base = "board-9", `{"base":{"RELEASE_M20":{"sysParams":{"managedConfig":true}}},
				"metadata":{"acme":{"pw":{"desc":"d","type":"STRING","action":"NO_ACTION","secret":`+secret+`}}}}`
			n.connect(c)
			r.pass(time.Second)
			all, err := c.Hardware(r.Context())
			if err != nil || len(all) != 1 {
				t.Fatalf("%+v %v", all, err)
			}
			if err := c.AcceptHardware(r.Context(), bob, "board-9", "", all[0].Digest); err != nil {
				t.Fatal(err)
			}
			r.pass(time.Second)
			if err := c.ForgetHardware(r.Context(), bob, "board-9"); !errors.Is(err, want) || want != nil &&
				!strings.Contains(err.Error(), "acme.pw") {
				t.Errorf("secret %s, by an operator: %v", secret, err)
			}
			if want == nil {
				return
			}
			if err := c.ForgetHardware(r.Context(), alice, "board-9"); err != nil {
				t.Errorf("by an admin: %v", err)
			}
		})
	}
}

// A node whose answer never matches what it reports is queried again now and then, and the fault is reported in few
// words.
func TestAConfigThatNeverFitsIsAskedForNowAndThen(t *testing.T) {
	t.Parallel()
	onRig(t, func(r *rig) {
		core, logs := observer.New(zap.InfoLevel)
		r.change = func(o *Options) { o.Log = zap.New(core) }
		c := r.start("a")
		n := r.join(c, "n1")
		n.doc = []byte(`{"a":[` + strings.Repeat("1e999,", 5000) + `0]}`)
		n.md5 = "0123456789abcdef0123456789abcdef"
		n.confirmed = fakeConfig{n.doc, n.peer, n.md5, n.generation}
		n.connect(c)
		r.pass(time.Second)
		r.say(c, n, 60, func(int) nodeproto.FromNode {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.report()
		})
		synctest.Wait()
		n.mu.Lock()
		got := n.heard["nodeproto.Request"]
		n.mu.Unlock()
		if got == 0 || got > 10 {
			t.Errorf("it was asked %d times in a minute", got)
		}
		size := 0
		for _, l := range logs.All() {
			size += len(l.Message)
			for _, v := range l.ContextMap() {
				size += len(fmt.Sprint(v))
			}
		}
		if size > 64<<10 {
			t.Errorf("%d bytes of log", size)
		}
	})
}

// Metadata with faults masks nothing once it is accepted: only an admin may do that.
func TestOnlyAnAdminAcceptsMetadataWithFaults(t *testing.T) {
	t.Parallel()
	bob := fleetapi.Caller{Name: "bob", Role: fleetapi.Operator}
	for kind, want := range map[string]error{"TEXT": fleetapi.ErrRole, "STRING": nil} {
		onRig(t, func(r *rig) {
			c := r.start("a")
			n := r.join(c, "n1")
			n.board, n.base = "board-9",
				`{"base":{"RELEASE_M20":{"sysParams":{"managedConfig":true},"acme":{"pw":"hidden-1","user":"shown-1"}}},
				"metadata":{"acme":{"pw":{"desc":"d","type":"`+kind+`","action":"VENDOR_RESTART","secret":true}}}}`
			n.connect(c)
			r.pass(time.Second)
			d, err := c.HardwareConfig(r.Context(), "board-9", "", false)
			if shown := text(t, d.Object); err != nil || strings.Contains(shown, "hidden-") ||
				strings.Contains(shown, "shown-") != (want == nil) {
				t.Errorf("%s: %v %s", kind, err, shown)
			}
			if err := c.AcceptHardware(r.Context(), bob, "board-9", "", d.Digest); !errors.Is(err, want) || want != nil &&
				!strings.Contains(err.Error(), "its metadata has faults") {
				t.Errorf("%s, by an operator: %v", kind, err)
			}
			if want == nil {
				return
			}
			if err := c.AcceptHardware(r.Context(), alice, "board-9", "", d.Digest); err != nil {
				t.Errorf("%s, by an admin: %v", kind, err)
			}
		})
	}
}

// An answer with too many values is refused before it is parsed: 8 MB of small ones would take 600 MB.
func TestAnAnswerOfManyValuesIsNotRead(t *testing.T) {
	t.Parallel()
	onRig(t, func(r *rig) {
		core, logs := observer.New(zap.InfoLevel)
		r.change = func(o *Options) { o.Log = zap.New(core) }
		c := r.start("a")
		n := r.join(c, "n1")
		n.doc = []byte(`{"a":[` + strings.Repeat(`{"":{}},`, 100_000) + `0]}`)
		n.md5 = "0123456789abcdef0123456789abcdef"
		n.connect(c)
		r.pass(time.Second)
		for _, l := range logs.All() {
			if why := fmt.Sprint(l.ContextMap()["why"]); strings.Contains(why,
				"too many values (300003): must be at most 100000") {
				return
			}
		}
		t.Errorf("it is not refused for its size: %v", logs.All())
	})
}
