package fleetapi

import (
	"testing"
	"time"
)

func TestTimesBeforeWhichTheHistoryIsPruned(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"2026-11-22T11:00:00Z": "2026-11-22T11:00:00Z", "2026-01-01T01:00:00+01:00": "2026-01-01T00:00:00Z",
		"48h": "2026-11-20T12:00:00Z", "90d": "2026-08-24T12:00:00Z",
		"": "", "2026-11-22": "", "59m": "", "0d": "", "-5h": "", "-5d": "", "1.5d": "", "2027-01-01T00:00:00Z": "",
		"99999999999999999999d": "", "9999999h": "", "90 d": "",
	} {
		got, err := beforeOf(text, now)
		if (err == nil) != (want != "") || err == nil && got.UTC().Format(time.RFC3339) != want {
			t.Errorf("%q: %v, %v; want %q", text, got, err, want)
		}
	}
}
