package daemon

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

var tables [1 << 16]byte // written to: not of the file alone

// mapped returns the KiB of files that this process has mapped and touched (proc_pid_status(5)).
func mapped(t *testing.T) (kib int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	_, rest, found := strings.Cut(string(text), "\nRssFile:")
	if _, serr := fmt.Sscan(rest, &kib); err != nil || serr != nil || !found {
		t.Fatal(err, serr, found)
	}
	return kib
}

func TestTheProgramsPagesAreUnmappedAndComeBack(t *testing.T) {
	for i := range tables {
		tables[i] = byte(i)
	}
	before := mapped(t)
	if err := forgetProgram(); err != nil {
		t.Fatal(err)
	}
	if after := mapped(t); after >= before {
		t.Errorf("%d KiB of files are mapped, before %d", after, before)
	}
	for i, b := range tables {
		if b != byte(i) {
			t.Fatalf("octet %d of a variable is %d", i, b)
		}
	}
}
