package host

import (
	"context"

	"edgespan/netinst/netstate"
)

// Counters returns what the rules of chains of an owner have counted since they were written.
func (h *Host) Counters(ctx context.Context, _ netstate.Owner, chains []netstate.ID) (
	map[netstate.ID][]netstate.Counter, error) {
	return h.fw.Counters(ctx, chains)
}

// LinkCounters returns what each link has carried, by name.
func (h *Host) LinkCounters() (map[string]netstate.LinkCounters, error) {
	return h.kernel.LinkCounters()
}

// HelperUsage returns what the processes of the networks use, by program.
func (h *Host) HelperUsage(ctx context.Context) ([]netstate.HelperUsage, error) {
	return h.help.Usage(ctx)
}
