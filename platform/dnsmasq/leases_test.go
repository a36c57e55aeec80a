package dnsmasq

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"edgespan/netinst/netstate"
)

const leaseText5 = `1795249638 02:00:00:00:00:0A 10.1.0.7 web *
1795249639 02:00:00:00:00:0b 10.1.0.8 * 01:02:00:00:00:00:0b
1795249640 02:00:00:00:00:0c 10.1.0.9 db *
duid 00:01:00:01
1795249641 06-02:00:00 10.1.0.10 * *
1795249642 02:00:00:00:00:0d 2001:db8::1 * *
1795249643 02:00:00:0`

func TestLeasesAreHeldAgainstReservations(t *testing.T) {
	reserved := map[string]string{
		"10.1.0.7": "02:00:00:00:00:0a", // its own
		"10.1.0.8": "02:00:00:00:00:0e", // another's
	} // 10.1.0.9 is nobody's
	var got []string
	for _, l := range unreservedLeases(readLeases(leaseText5), reserved) {
		got = append(got, l.mac+" "+l.addr+" "+l.client)
	}
	want := []string{"02:00:00:00:00:0b 10.1.0.8 01:02:00:00:00:00:0b", "02:00:00:00:00:0c 10.1.0.9 *"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestPruningTakesOnlyStaleLinesAway(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "leases")
	w := &netstate.Leases{File: "leases",
		Reserved: map[string]string{"10.1.0.7": "02:00:00:00:00:0a", "10.1.0.9": "02:00:00:00:00:0c"}}
	if err := pruneLeases(dir, w); err != nil {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, []byte(leaseText5), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := pruneLeases(dir, w); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Replace([]byte(leaseText5), []byte("1795249639 02:00:00:00:00:0b 10.1.0.8 * 01:02:00:00:00:00:0b\n"),
		nil, 1)
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Error(d)
	}
}

func TestAReleaseIsSpelledAsItsClientWould(t *testing.T) {
	m, err := releaseMessage("10.1.0.1", lease{mac: "02:00:00:00:00:0b", addr: "10.1.0.8", client: "01:02:ff"})
	if err != nil {
		t.Fatal(err)
	}
	options := []byte{99, 130, 83, 99, 53, 1, 7, 54, 4, 10, 1, 0, 1, 61, 3, 1, 2, 255, 255}
	switch {
	case len(m) != 300 || m[0] != 1 || m[1] != 1 || m[2] != 6:
		t.Errorf("head: %d octets, % x", len(m), m[:4])
	case !bytes.Equal(m[12:16], []byte{10, 1, 0, 8}):
		t.Errorf("ciaddr % x", m[12:16])
	case !bytes.Equal(m[28:34], []byte{2, 0, 0, 0, 0, 11}):
		t.Errorf("chaddr % x", m[28:34])
	case !bytes.Equal(m[236:236+len(options)], options):
		t.Errorf("options % x", m[236:270])
	}
	if _, err := releaseMessage("10.1.0.1", lease{mac: "02:00:00:00:00:0b", addr: "10.1.0.8", client: "zz"}); err == nil {
		t.Error("a client id that is none was taken")
	}
}
