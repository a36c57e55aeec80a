package dnsmasq

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
)

// programs are the helpers' programs, which bound what Usage tells apart.
var programs = []string{"dnsmasq", "radvd"}

// Usage returns what the helpers use, by program.
func (h *Helpers) Usage(ctx context.Context) ([]netstate.HelperUsage, error) {
	all, err := h.ownProcesses(ctx, func(proc.Process) bool { return true })
	if err != nil {
		return nil, fmt.Errorf("usage of helpers: %w", err)
	}
	out := make([]netstate.HelperUsage, len(programs))
	for i, name := range programs {
		out[i].Program = name
	}
	for _, p := range all {
		i := slices.Index(programs, filepath.Base(p.Argv[0]))
		if i < 0 {
			continue // it only names a file of the run folder
		}
		if bytes, alive := p.Resident(); alive {
			out[i].Processes, out[i].Memory = out[i].Processes+1, out[i].Memory+bytes
		}
	}
	return out, nil
}
