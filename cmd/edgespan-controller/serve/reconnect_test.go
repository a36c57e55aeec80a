package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"edgespan/cmd/edgespan-controller/ctltest"
	"edgespan/config"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/platform/store/etcd/etcdtest"
)

// A node of a replica that dies waits at most half a second where its nodes are few, and is
// let in by the next one at its first attempt; the rest is what a loaded machine takes.
const reconnectWithin = 500*time.Millisecond + 4*time.Second

// TestTheNodesOfAKilledReplicaGoToTheOtherOne kills one of two replicas with SIGKILL, and
// then ends the other one in order once the first is there again: each time all nodes are
// at the one that is left, none is lost, and all get what is written there.
func TestTheNodesOfAKilledReplicaGoToTheOtherOne(t *testing.T) {
	const nodes = 24
	server, err := etcdtest.Serve(t.TempDir(), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	dirs := []string{t.TempDir(), t.TempDir()}
	flags := []string{"--etcd", server.Endpoint, "--fleet", "wave", "--node-host", "127.0.0.1", "--joins-per-second",
		"1000"}
	one := ctltest.StartProcess(t, dirs[0], append(flags, "--replica", "one")...)
	ca, err := os.ReadFile(filepath.Join(dirs[0], "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	ctltest.Put(t, dirs[1], "ca.pem", string(ca))
	two := ctltest.StartProcess(t, dirs[1], append(flags, "--replica", "two")...)

	var all []*ctltest.Node
	for i := range nodes {
		invited, err := one.Client.Invite(t.Context(), fmt.Sprintf("n%02d", i), time.Hour, false)
		if err != nil {
			t.Fatal(err)
		}
		request := []string{one.Nodes, two.Nodes}
		if i%3 == 0 { // one in three begins at the other
			slices.Reverse(request)
		}
		all = append(all, ctltest.Join(t, invited.Command, request...))
	}
	level := func(v *ctltest.Process, want string) {
		t.Helper()
		_, err := v.Client.Write(t.Context(), ops.SetNetwork{Modify: true, Overrides: config.Object{
			"sysParams": config.Object{"managedConfig": true, "logLevel": want},
		}}, fleetapi.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range all {
			n.Push([]string{"sysParams", "logLevel"}, want)
		}
	}
	level(two, "debug")
	var atOne, atTwo []*ctltest.Node
	for i, n := range all {
		if i%3 == 0 {
			atTwo = append(atTwo, n)
		} else {
			atOne = append(atOne, n)
		}
	}

	one.Kill(t)
	back(t, "the kill of the first replica", atOne, atTwo)
	level(two, "info")

	one = ctltest.StartProcess(t, dirs[0], append(flags, "--replica", "one", "--node-listen", one.Nodes)...)
	if err := two.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	back(t, "the goodbye of the second replica", all, nil)
	if err := two.Cmd.Wait(); err != nil {
		t.Errorf("the second replica ended with %v", err)
	}
	level(one, "warn")
}

// back waits until each of some nodes has lost its stream and has the next one, while the
// others keep theirs. There is one replica that they can have it of.
func back(t *testing.T, what string, lost, kept []*ctltest.Node) {
	t.Helper()
	begun := time.Now()
	for i, n := range lost {
		select {
		case <-n.Downs:
		case <-time.After(ctltest.Timeout):
			t.Fatalf("node %d of those that lose their replica keeps its stream", i)
		}
	}
	for {
		away := 0
		for _, n := range lost {
			if !n.Connected() {
				away++
			}
		}
		took := time.Since(begun)
		if away == 0 {
			t.Logf("%d nodes are back %v after %s", len(lost), took, what)
			break
		}
		if took > reconnectWithin {
			t.Fatalf("%d of %d nodes are away %v after %s", away, len(lost), took, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
	for i, n := range kept {
		if len(n.Downs) > 0 {
			t.Errorf("node %d of those that keep their replica lost its stream", i)
		}
	}
}
