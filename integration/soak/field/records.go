package field

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"edgespan/integration/soak/guest"
)

// unlikeJournal says what a node would not know after a restart, or otherwise, or "".
func (r *run) unlikeJournal(ctx context.Context, m *machine) string {
	res, err := m.run(ctx, guest.Dir+"/soak", "records")
	if err != nil {
		return err.Error()
	}
	return unlike(res.Code, res.Out)
}

func unlike(code int, out string) string {
	var rec guest.Records
	if code != 0 || json.Unmarshal([]byte(out), &rec) != nil {
		return fmt.Sprintf("exit code %d: %s", code, out)
	}
	if len(rec.Known) == 0 {
		return "the daemon has no records: a number of each network at least"
	}
	all := maps.Clone(rec.Known)
	maps.Copy(all, rec.Stored)
	var different []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if known, stored := rec.Known[key], rec.Stored[key]; known != stored && len(different) < maxTold {
			different = append(different, fmt.Sprintf("%s: the daemon has %.200q, its journal %.200q", key, known, stored))
		}
	}
	return strings.Join(different, "; ")
}
