package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/httpapi/rest"
	"edgespan/config/kv"
	"edgespan/pubsub/ratelimit"
)

var carol = fleetapi.Caller{Name: "carol", Role: fleetapi.Operator, Via: rest.ViaToken}

// overrides writes the network's overrides with a text of a given size.
func (r *rig) overrides(c *Controller, who fleetapi.Caller, n, bytes int, modify bool) error {
	text := fmt.Sprintf(`{"envParams":{"N":"%d"}}`, n)
	if bytes > 0 {
		text = fmt.Sprintf(`{"envParams":{"N":"%d","A":"%s"}}`, n, strings.Repeat("x", bytes))
	}
	_, err := c.Write(r.Context(),
		fleetapi.WriteRequest{Caller: who, Write: ops.SetNetwork{Overrides: r.doc(text), Modify: modify}})
	return err
}

// A caller who is not an admin can store a limited number of bytes at once and per second, counted by what is stored,
// not by what is sent.
func TestWhatAnOperatorMayHaveStored(t *testing.T) {
	t.Parallel()
	for _, modify := range []bool{false, true} {
		onRig(t, func(r *rig) {
			r.change = func(o *Options) { o.Stored = ratelimit.NewBuckets(1<<10, 160<<10) }
			c := r.start("a")
			if err := r.overrides(c, alice, 0, 15<<10, false); err != nil {
				t.Fatal(err)
			}
			bytes := 15 << 10
			if modify {
				bytes = 0 // each is a complete version all the same
			}
			n, err := 1, error(nil)
			for ; err == nil && n < 30; n++ {
				err = r.overrides(c, carol, n, bytes, modify)
			}
			var many *fleetapi.TooManyError
			if !errors.As(err, &many) || n < 8 || n > 12 || many.Wait <= 0 || many.Wait > time.Minute {
				t.Fatalf("modify %v: write %d of 16 KB: %v; 160 KB are allowed at once", modify, n, err)
			}
			before := c.d.Stored.WaitTime(carol.ShareKey(), c.d.Now())
			if dry, err := c.Write(r.Context(), fleetapi.WriteRequest{Caller: carol,
				DryRun: true, Write: ops.SetNetwork{Overrides: r.doc(`{}`)}}); err != nil || !dry.Changed {
				t.Errorf("a dry run stores nothing: %+v %v", dry, err)
			}
			if err := r.overrides(c, alice, 100, bytes, modify); err != nil {
				t.Errorf("an admin has no bound: %v", err)
			}
			eve := fleetapi.Caller{Name: "eve", Role: fleetapi.Operator, Via: rest.ViaToken}
			if err := r.overrides(c, eve, 101, bytes, modify); err != nil {
				t.Errorf("another operator has its own: %v", err)
			}
			r.pass(before + time.Second)
			if err := r.overrides(c, carol, 102, bytes, modify); err != nil {
				t.Errorf("after %v: %v", before, err)
			}
		})
	}
}

// scarce is a store that nears its limit, or refuses writes.
type scarce struct {
	*memory
	err, full error
}

func (s *scarce) CheckSpace() error { return s.err }

func (s *scarce) Commit(ctx context.Context, t kv.Txn) (kv.TxnResult, error) {
	if s.full != nil && t.Writes() {
		return kv.TxnResult{}, s.full
	}
	return s.memory.Commit(ctx, t)
}

// A store near its limit accepts only an admin's writes, so that there is room to free space.
func TestAScarceStoreTakesAnAdminsWritesOnly(t *testing.T) {
	t.Parallel()
	onRig(t, func(r *rig) {
		s := &scarce{memory: r.store}
		r.change = func(o *Options) { o.Store = s }
		c := r.start("a")
		s.err = errors.New("1536 of 2048 MiB")
		preview := func(who fleetapi.Caller) error {
			_, err := c.Preview(r.Context(),
				fleetapi.WriteRequest{Caller: who, Write: ops.SetNetwork{Overrides: r.doc(`{"envParams":{"N":"1"}}`)}})
			return err
		}
		for what, err := range map[string]error{"write": r.overrides(c, carol, 1, 1, false), "preview": preview(carol)} {
			if !errors.Is(err, fleetapi.ErrBusy) || !strings.Contains(err.Error(), "1536 of 2048 MiB") {
				t.Errorf("%s of an operator: %v", what, err)
			}
		}
		if err := errors.Join(r.overrides(c, alice, 1, 1, false), preview(alice)); err != nil {
			t.Errorf("an admin: %v", err)
		}
		s.err = nil
		if err := errors.Join(r.overrides(c, carol, 2, 1, false), preview(carol)); err != nil {
			t.Errorf("there is room: %v", err)
		}
	})
}

// What the store has certainly not kept costs nothing.
func TestWhatWasNotStoredIsGivenBack(t *testing.T) {
	t.Parallel()
	onRig(t, func(r *rig) {
		s := &scarce{memory: r.store}
		r.change = func(o *Options) { o.Store, o.Stored = s, ratelimit.NewBuckets(1, 64<<10) }
		c := r.start("a")
		s.full = kv.ErrUnwritten
		for n := range 20 {
			if err := r.overrides(c, carol, n, 16<<10, false); !errors.Is(err, fleetapi.ErrBusy) {
				t.Fatalf("write %d: %v", n, err)
			}
		}
		s.full = nil
		if err := r.overrides(c, carol, 20, 16<<10, false); err != nil {
			t.Error(err)
		}
	})
}

// A caller has a limited number of open previews; each ends by itself.
func TestOpenPreviewsAreBounded(t *testing.T) {
	t.Parallel()
	onRig(t, func(r *rig) {
		c := r.start("a")
		preview := func(who fleetapi.Caller) error {
			_, err := c.Preview(r.Context(),
				fleetapi.WriteRequest{Caller: who, Write: ops.SetNetwork{Overrides: r.doc(`{"envParams":{"N":"1"}}`)}})
			return err
		}
		for n := range maxPreviews {
			if err := preview(carol); err != nil {
				t.Fatalf("preview %d: %v", n, err)
			}
		}
		var many *fleetapi.TooManyError
		if err := preview(carol); !errors.As(err, &many) || many.Wait > time.Minute {
			t.Fatalf("one too many: %v", err)
		}
		if err := preview(alice); err != nil {
			t.Errorf("another caller: %v", err)
		}
		r.pass(many.Wait)
		if err := preview(carol); err != nil {
			t.Errorf("after %v: %v", many.Wait, err)
		}
	})
	var p previews
	noon := time.Unix(1<<30, 0)
	for n, want := range []bool{true, true, true, false} {
		if wait := p.open("bob", noon, openPreview{fmt.Sprint(n), noon.Add(time.Minute), 10 << 20}); (wait == 0) != want {
			t.Errorf("plan %d of 10 MB: waits %v", n+1, wait)
		}
	}
	p.end("bob", "1")
	if wait := p.open("bob", noon, openPreview{"4", noon.Add(time.Minute), 10 << 20}); wait != 0 {
		t.Errorf("one that was not stored counts: waits %v", wait)
	}
	if p.open("eve", noon.Add(time.Hour), openPreview{}); len(p.of) != 1 {
		t.Errorf("%d callers are remembered, one has an open preview", len(p.of))
	}
}
