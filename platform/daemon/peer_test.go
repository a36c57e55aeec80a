package daemon

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The test is its own peer.
func TestThePeerIsKnownWithItsGroups(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // a test
	go func() {
		if c, err := net.Dial("unix", path); err == nil {
			defer c.Close()                //nolint:errcheck // a test
			_, _ = c.Read(make([]byte, 1)) // until the other end is closed
		}
	}()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // a test
	p, err := PeerOf(c)
	if err != nil {
		t.Fatal(err)
	}
	if p.UID != uint32(os.Getuid()) || p.PID != int32(os.Getpid()) {
		t.Errorf("%+v", p)
	}
	own, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range append(own, os.Getgid()) {
		if !slices.Contains(p.Groups, uint32(g)) {
			t.Errorf("group %d is missing in %v", g, p.Groups)
		}
	}
	if gid, ok := GroupID("root"); !ok || gid != 0 || p.IsIn("root") != slices.Contains(p.Groups, 0) {
		t.Errorf("root is group %d, %v", gid, ok)
	}
	if p.IsIn("no-such-group") {
		t.Error("in a group that does not exist")
	}
	if _, err := PeerOf(&net.TCPConn{}); err == nil {
		t.Error("a peer of TCP is known")
	}
}
