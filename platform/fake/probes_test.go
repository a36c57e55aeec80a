package fake_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/netinst/probe"
	"edgespan/platform/fake"
)

func TestProbesEndAsTheirFunctionDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := fake.New()
		shoot := func(target string) (took, lasted time.Duration, err error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			took, _, err = h.Probe(ctx, probe.ID{Method: probe.ICMP, Target: target})
			return took, time.Since(began), err
		}
		if took, _, err := shoot("192.0.2.1"); err != nil || took != fake.ProbeTook {
			t.Errorf("without a function: %v, %v", took, err)
		}
		refused := errors.New("refused")
		h.SetProbes(func(id probe.ID) error {
			return map[string]error{"192.0.2.2": refused, "192.0.2.3": context.DeadlineExceeded}[id.Target]
		})
		for target, want := range map[string]struct {
			err    error
			lasted time.Duration
		}{"192.0.2.1": {}, "192.0.2.2": {err: refused}, "192.0.2.3": {context.DeadlineExceeded, time.Second}} {
			if _, lasted, err := shoot(target); !errors.Is(err, want.err) || lasted != want.lasted {
				t.Errorf("%s: %v after %v, want %v after %v", target, err, lasted, want.err, want.lasted)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := h.Probe(ctx, probe.ID{}); !errors.Is(err, context.Canceled) {
			t.Errorf("after its context: %v", err)
		}
	})
}
