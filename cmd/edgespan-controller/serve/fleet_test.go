package serve

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"edgespan/cmd/edgespan-controller/ctltest"
	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/platform/nodelink"
	"edgespan/platform/pki"
	"edgespan/platform/store/etcd/etcdtest"
)

// TestANodeJoinsByThePrintedCommandAndIsPushedTo goes from the first start to a node that
// runs what an operator wrote, and over a restart of the controller.
func TestANodeJoinsByThePrintedCommandAndIsPushedTo(t *testing.T) {
	dir := t.TempDir()
	c := program.Start(t, dir)
	pin := c.Pin()
	client := c.Client(pin, c.Token())
	n := ctltest.Join(t, c.Err.Line(t, "edgespan join", c.Ended))
	write := func(client *fleetapi.Client, level string) {
		t.Helper()
		_, err := client.Write(t.Context(), ops.SetNetwork{Modify: true, Overrides: config.Object{
			"sysParams": config.Object{"managedConfig": true, "logLevel": level},
		}}, fleetapi.WriteOptions{Message: "level " + level})
		if err != nil {
			t.Fatal(err)
		}
	}
	write(client, "debug")
	n.Push([]string{"sysParams", "logLevel"}, "debug")
	ctltest.AwaitNode(t, client, firstNode, "InSync")

	if code := c.End(); code != term.ExitOK {
		t.Fatalf("it ended with %d", code)
	}
	select {
	case cause := <-n.Downs:
		if cause == nil || !strings.Contains(cause.Error(), "shutting down") {
			t.Errorf("the node was sent away with %v", cause)
		}
	case <-time.After(ctltest.Timeout):
		t.Fatal("the node was not sent away")
	}
	again := program.Start(t, dir, "--node-listen", c.Nodes)
	client = again.Client(pin, again.Token())
	ctltest.AwaitNode(t, client, firstNode, "InSync")
	write(client, "warn")
	n.Push([]string{"sysParams", "logLevel"}, "warn")
	ctltest.AwaitNode(t, client, firstNode, "InSync")
}

// TestATokenIsForOneNode plays a printed command twice.
func TestATokenIsForOneNode(t *testing.T) {
	c := program.Start(t, t.TempDir())
	line := c.Err.Line(t, "edgespan join", c.Ended)
	ctltest.Join(t, line)
	args := strings.Fields(line[strings.Index(line, "edgespan join"):])[2:]
	flags := map[string]string{}
	for i := 0; i+1 < len(args); i += 2 {
		flags[args[i]] = args[i+1]
	}
	pin, err := pki.ParsePin(flags["--ca-sha256"])
	if err != nil {
		t.Fatal(err)
	}
	creds, err := pki.OpenCredentials(t.TempDir(), uuid.New(), nil)
	if !errors.Is(err, pki.ErrNotJoined) {
		t.Fatal(err)
	}
	_, err = nodelink.Join(t.Context(), nodelink.JoinOptions{
		Controller: flags["--controller"], Token: flags["--token"], Name: flags["--name"], Pin: pin, Credentials: creds,
	})
	if refused := new(nodelink.Refused); !errors.As(err, &refused) {
		t.Errorf("another node with the same token: %v", err)
	}
}

// TestTwoReplicasOfOneFleet has one etcd, two data folders and one CA: a node of the first
// replica gets what is written at the second.
func TestTwoReplicasOfOneFleet(t *testing.T) {
	server, err := etcdtest.Serve(t.TempDir(), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	flags := []string{"--etcd", server.Endpoint, "--fleet", "north"}
	one := program.Start(t, t.TempDir(), flags...)
	dir := t.TempDir()
	alone := program.Launch(t, dir, nil, flags...)
	<-alone.Ended
	if alone.Code != term.ExitConflict || !strings.Contains(alone.Err.String(), "ca.pem not found") {
		t.Fatalf("a replica without the CA: %d: %s", alone.Code, alone.Err)
	}
	ca, err := os.ReadFile(filepath.Join(one.Dir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	ctltest.Put(t, dir, "ca.pem", string(ca))
	two := program.Start(t, dir, flags...)
	if strings.Contains(two.Err.String(), "edgespan join") {
		t.Errorf("the second replica of a fleet invites its first node again:\n%s", two.Err)
	}
	n := ctltest.Join(t, one.Err.Line(t, "edgespan join", one.Ended)) // what the first one printed still counts
	first, second := one.Client(one.Pin(), one.Token()), two.Client(one.Pin(), two.Token())
	if _, err := second.Write(t.Context(), ops.SetNetwork{Overrides: config.Object{
		"sysParams": config.Object{"managedConfig": true, "logLevel": "debug"},
	}}, fleetapi.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	n.Push([]string{"sysParams", "logLevel"}, "debug")
	ctltest.AwaitNode(t, first, firstNode, "InSync")
	if _, err := two.Client(one.Pin(), one.Token()).Nodes(t.Context()); err != nil {
		t.Errorf("the token of one replica at the other: %v", err)
	}
}

// TestAWriteToItsConfigChangesTheRunningController goes over REST: a level of the log, a flag,
// an action without a mapping, and the end of the process.
func TestAWriteToItsConfigChangesTheRunningController(t *testing.T) {
	c := program.Start(t, t.TempDir())
	client := c.Client(c.Pin(), c.Token())
	set := func(text string) fleetapi.Written {
		t.Helper()
		doc, faults := config.ParseObject([]byte(text))
		if faults != nil {
			t.Fatal(faults)
		}
		out, err := client.Write(t.Context(), ops.SetE2E{File: "controller", Config: doc, Modify: true},
			fleetapi.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := set(`{"flags":{"v":"1","consecutive_reconfig_delay_s":"7"}}`); len(out.Actions) != 2 {
		t.Errorf("actions %+v", out.Actions)
	}
	c.Err.Line(t, `"action":"UPDATE_GFLAG","state":"done"`, c.Ended)
	c.Err.Line(t, `"action":"UPDATE_GLOG_LEVEL","state":"done"`, c.Ended)
	set(`{"scanParams":{"a":1}}`)
	c.Err.Line(t, `"action":"UPDATE_SCAN_CONFIG","state":"unsupported"`, c.Ended)
	set(`{"flags":{"config_confirm_timeout_s":"60","joins_per_second":"2"}}`)
	select {
	case <-c.Ended:
	case <-time.After(ctltest.Timeout):
		t.Fatal("REBOOT did not end it")
	}
	if c.Code != term.ExitOK {
		t.Errorf("it ended with %d", c.Code)
	}
	again := program.Start(t, c.Dir)
	doc, err := again.Client(c.Pin(), again.Token()).E2E(t.Context(), "controller", false)
	if v, _ := config.Lookup(doc.Object, []string{"flags", "config_confirm_timeout_s"}); err != nil || v != "60" {
		t.Errorf("after the restart: %v, %v", v, err)
	}
}
