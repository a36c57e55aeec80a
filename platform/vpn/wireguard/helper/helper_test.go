package helper

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestNotesAreOfTheLastMomentAndBounded(t *testing.T) {
	n := newNoticed(&strings.Builder{})
	begin := time.Unix(1000, 0)
	for i := range 3 * maxNotes {
		n.note(BadInitiation, fmt.Sprintf("192.0.2.%d:51820", i), begin.Add(time.Duration(i)*time.Second))
	}
	n.note(BadInitiation, "192.0.2.80:51820", begin.Add(time.Hour))
	n.note(BadResponse, "[2001:db8::1]:7", begin)
	n.note(BadResponse, "nonsense", begin)
	if got := len(n.seen[BadInitiation]); got != maxNotes {
		t.Errorf("%d addresses", got)
	}
	for _, last := range []string{"192.0.2.95", "192.0.2.80"} {
		if _, ok := n.seen[BadInitiation][netip.MustParseAddr(last)]; !ok {
			t.Errorf("%s is forgotten", last)
		}
	}
	text := n.text()
	for _, line := range []string{"bad_initiation=192.0.2.80 4600\n", "bad_response=2001:db8::1 1000\n"} {
		if !strings.Contains(text, line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
}

// The formats are those of wireguard-go: TestWrongKeysOfAPeerAreTold sees them from real peers.
func TestTheOutputIsBounded(t *testing.T) {
	out := &strings.Builder{}
	log := newNoticed(out).logger()
	for i := range 10 * maxLines {
		log.Errorf("line %d", i)
		log.Verbosef("%v - Sending handshake initiation", i)
	}
	if got := strings.Count(out.String(), "\n"); got != maxLines || strings.Contains(out.String(), "Sending") {
		t.Errorf("%d lines", got)
	}
}
