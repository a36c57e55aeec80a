package fake

import (
	"context"
	"errors"
	"time"

	"edgespan/netinst/probe"
)

// ProbeTook is the time until each answer to a probe.
const ProbeTook = time.Millisecond

// ProbeBytes is what each shot of a probe sends and receives.
const ProbeBytes = 1000

// Slow is not an error: it makes a probe's target answer after that time.
type Slow time.Duration

func (s Slow) Error() string { return "answers after " + time.Duration(s).String() }

// SetProbes sets the function that decides how each shot of a probe ends: nil is an answer, and Slow one that takes
// longer. With context.DeadlineExceeded no answer comes, and the shot lasts until its deadline; every other error is
// returned at once. f is called with the host's lock held; a nil f answers all.
func (h *Host) SetProbes(f func(probe.ID) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.probes = f
}

// Probe sends one shot of a probe, as SetProbes decides.
func (h *Host) Probe(ctx context.Context, id probe.ID) (time.Duration, int, error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	if err := h.outcome(id); err != nil {
		var slow Slow
		if errors.As(err, &slow) {
			select {
			case <-time.After(time.Duration(slow)):
				return time.Duration(slow), ProbeBytes, nil
			case <-ctx.Done():
				return 0, ProbeBytes, ctx.Err()
			}
		}
		if errors.Is(err, context.DeadlineExceeded) {
			<-ctx.Done()
		}
		return 0, ProbeBytes, err
	}
	return ProbeTook, ProbeBytes, nil
}

func (h *Host) outcome(id probe.ID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.probes == nil {
		return nil
	}
	return h.probes(id)
}
