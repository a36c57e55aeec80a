package tty

import (
	"os"
	"testing"
)

func TestSize(t *testing.T) {
	screen, terminal, err := Open(80, 24)
	if err != nil {
		t.Skipf("no terminals: %v", err)
	}
	defer screen.Close()   //nolint:errcheck // a test
	defer terminal.Close() //nolint:errcheck // a test
	if w, h, ok := Size(terminal); w != 80 || h != 24 || !ok || !Is(terminal) {
		t.Errorf("%d x %d, %v", w, h, ok)
	}
	none, sizeless, err := Open(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer none.Close()     //nolint:errcheck // a test
	defer sizeless.Close() //nolint:errcheck // a test
	if _, _, ok := Size(sizeless); ok || !Is(sizeless) {
		t.Error("a terminal without a size has one, or is none")
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close() //nolint:errcheck // a test
	if _, _, ok := Size(null); ok || Is(null) {
		t.Error("the null device is a terminal")
	}
}
