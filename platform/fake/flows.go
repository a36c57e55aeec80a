package fake

import (
	"context"
	"slices"

	"edgespan/netinst/netstate"
)

// SetFlows sets the tracked flows.
func (h *Host) SetFlows(flows ...netstate.Flow) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.flows = flows
}

// ForgetFlows counts its calls and deletes the flows that match. It returns the error that FailForgetFlows set.
func (h *Host) ForgetFlows(_ context.Context, match func(netstate.Flow) bool) (answer func() (int, error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgets++
	before, err := len(h.flows), h.forgetErr
	h.flows = slices.DeleteFunc(slices.Clone(h.flows), match)
	n := before - len(h.flows)
	return func() (int, error) { return n, err }
}

// SetEndConnections sets what ends the connections of the app in a network namespace; nil, the default, ends none,
// since apps of a host in memory have no sockets.
func (h *Host) SetEndConnections(end func(ctx context.Context, netns string, flows []netstate.Flow) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ending = end
}

// EndConnections ends connections as SetEndConnections says.
func (h *Host) EndConnections(ctx context.Context, netns string, flows []netstate.Flow) (int, error) {
	h.mu.Lock()
	end := h.ending
	h.mu.Unlock()
	if end == nil {
		return 0, nil
	}
	if err := end(ctx, netns, flows); err != nil {
		return 0, err
	}
	return len(flows), nil
}

// EmitFlows reports events of flows to the listeners. It returns false if there are none.
func (h *Host) EmitFlows(e netstate.FlowEvents) bool {
	h.mu.Lock()
	emit := h.emitFlows
	h.mu.Unlock()
	if emit == nil {
		return false
	}
	emit(e)
	return true
}

// EndedFlows reports what EmitFlows says until ctx ends.
func (h *Host) EndedFlows(ctx context.Context, emit func(netstate.FlowEvents)) error {
	h.mu.Lock()
	h.emitFlows = emit
	h.mu.Unlock()
	<-ctx.Done()
	h.mu.Lock()
	h.emitFlows = nil
	h.mu.Unlock()
	return nil
}

// FailDenied makes DeniedPackets fail with err; nil for none.
func (h *Host) FailDenied(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deniedErr = err
}

// CountDenied returns how often DeniedPackets was called.
func (h *Host) CountDenied() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.deniedAsked
}

// DeniedPackets reports none until ctx ends, or fails as FailDenied says: EmitFlows reports denied packets, too.
func (h *Host) DeniedPackets(ctx context.Context, _ uint16, _ func(netstate.FlowEvents)) error {
	h.mu.Lock()
	h.deniedAsked++
	err := h.deniedErr
	h.mu.Unlock()
	if err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// SetTracked sets what TrackedFlows reports.
func (h *Host) SetTracked(flows ...netstate.EndedFlow) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tracked = flows
}

// TrackedFlows reports what SetTracked has set.
func (h *Host) TrackedFlows(ctx context.Context, each func(netstate.EndedFlow)) error {
	h.mu.Lock()
	flows := h.tracked
	h.mu.Unlock()
	for _, f := range flows {
		each(f)
	}
	return ctx.Err()
}

// FailForgetFlows makes every ForgetFlows fail with err; nil for none.
func (h *Host) FailForgetFlows(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgetErr = err
}

// CountForgetFlows returns how often ForgetFlows was called.
func (h *Host) CountForgetFlows() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.forgets
}
