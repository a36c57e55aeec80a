package proc

import (
	"os"
	"testing"
	"time"
)

func TestUsageIsRead(t *testing.T) {
	got, err := parseUsage("7 (a ) b) S 1 7 7 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 1 0 999 8192000 321 "+
		"18446744073709551615 1", 4096)
	if want := (Usage{Resident: 321 * 4096, CPU: 2 * time.Second}); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for _, text := range []string{"", "7 (a) S 1 2",
		"7 (a) S 1 7 7 0 -1 4194560 100 0 0 0 x 50 0 0 20 0 1 0 999 8192000 321 1"} {
		if got, err := parseUsage(text, 4096); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
	own, err := UsageOf(os.Getpid())
	if err != nil || own.Resident < 1<<20 {
		t.Errorf("of this test: %+v, %v", own, err)
	}
	if _, err := UsageOf(-1); err == nil {
		t.Error("of no process")
	}
}
