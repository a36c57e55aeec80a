package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/netinst/probe"
	"edgespan/platform/fake"
)

var one, other = netstate.Owner{Name: "n1", Number: 1}, netstate.Owner{Name: "n2", Number: 2}

// took returns what a call needs and its error.
func took(f func() error) (time.Duration, error) {
	began := time.Now()
	err := f()
	return time.Since(began), err
}

func TestAFaultHitsOneNetworkAndEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended []string
		f := &Faults{Ended: func(what string) { ended = append(ended, what) }}
		h := f.Host(fake.New())
		if err := f.Inject(Hang, "n1", 30*time.Second); err != nil {
			t.Fatal(err)
		}
		observe := func(o netstate.Owner) func() error {
			return func() error {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				defer cancel()
				_, err := h.Observe(ctx, o, true)
				return err
			}
		}
		if d, err := took(observe(one)); d != 20*time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("hung: %v, %v", d, err)
		}
		if d, err := took(observe(other)); d != 0 || err != nil {
			t.Errorf("another network: %v, %v", d, err)
		}
		if d, err := took(observe(one)); d != 10*time.Second || err != nil { // it ends meanwhile
			t.Errorf("at its end: %v, %v", d, err)
		}
		synctest.Wait()
		if fmt.Sprint(ended, f.List()) != "[hang ni/n1] []" {
			t.Errorf("ended: %v, left: %v", ended, f.List())
		}
	})
}

func TestEachKindDoesWhatItSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &Faults{}
		h := f.Host(fake.New())
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		for _, k := range []string{Fail, DropProbes, SlowDisk} {
			network := ""
			if f.Kinds()[k] {
				network = "n1"
			}
			if err := f.Inject(k, network, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		j := f.Journal(memory{})
		if d, err := took(func() error { return j.Put("t", "k", nil) }); d != time.Second || err != nil {
			t.Errorf("a write: %v, %v", d, err)
		}
		if d, err := took(func() error { return j.Delete("t", "k") }); d != time.Second || err != nil {
			t.Errorf("a removal: %v, %v", d, err)
		}
		op := netstate.Op{Verb: netstate.Add, Kind: netstate.KindLink}
		if err := h.Do(ctx, one, op); err == nil || !strings.Contains(err.Error(), "fault fail: injected by an operator") {
			t.Errorf("an op: %v", err)
		}
		if d, err := took(func() error { _, _, err := h.Probe(ctx, probe.ID{}); return err }); d != time.Second ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a probe: %v, %v", d, err)
		}
		if all := fmt.Sprint(f.List()); all != "[drop-probes for another 57s fail ni/n1 for another 57s slow-disk for another 57s]" {
			t.Error(all)
		}
		if n := f.Clear(); n != 3 || len(f.List()) != 0 {
			t.Errorf("%d cleared, left: %v", n, f.List())
		}
		if d, _ := took(func() error { return j.Put("t", "k", nil) }); d != 0 {
			t.Errorf("after it: %v", d)
		}
	})
}

func TestFaultsAreBounded(t *testing.T) {
	f := &Faults{}
	defer f.Clear()
	for _, d := range []time.Duration{0, -time.Second, time.Millisecond, MaxLasts + 1} {
		if f.Inject(Hang, "n", d) == nil {
			t.Errorf("%v is accepted", d)
		}
	}
	for i := range maxFaults {
		if err := f.Inject(Hang, fmt.Sprint(i), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if f.Inject(Hang, "more", time.Minute) == nil || f.Inject(Hang, "0", time.Minute) != nil {
		t.Error("the bound is not that of faults that last")
	}
}

type memory struct{}

func (memory) Load(string) (map[string][]byte, error) { return nil, nil }
func (memory) Put(string, string, []byte) error       { return nil }
func (memory) Delete(topic, key string) error         { return nil }
