package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/platform/nodelink"
	"edgespan/platform/pki"
	"edgespan/platform/store/etcd/etcdtest"
)

// plainNode is a node that takes every push, does nothing, and says that all is well.
type plainNode struct {
	t     *testing.T
	creds *pki.Credentials
	hello nodeproto.Hello

	mu       sync.Mutex
	stream   nodeproto.ToController
	state    nodeproto.Report
	document []byte // that it runs
	pushed   chan nodeproto.Push
	downs    chan error
}

// joined lets a node join by a printed command and connects it, to the controller that the
// command names or to those of a list.
func joined(t *testing.T, command string, controllers ...string) *plainNode {
	t.Helper()
	args := strings.Fields(command[strings.Index(command, "edgespan join"):])[2:]
	flags := map[string]string{}
	for i := 0; i+1 < len(args); i += 2 {
		flags[args[i]] = args[i+1]
	}
	pin, err := pki.ParsePin(flags["--ca-sha256"])
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	id := uuid.New()
	n := &plainNode{t: t, pushed: make(chan nodeproto.Push, 16), downs: make(chan error, 16), hello: nodeproto.Hello{
		Node: id.String(), Name: flags["--name"], Software: "EDGESPAN-0-1-0",
	}}
	n.hello.MD5 = config.MD5(config.Object{})
	n.document = []byte("{}")
	n.state = nodeproto.Report{MD5: n.hello.MD5, Software: n.hello.Software, Settled: true, Source: "file"}
	if n.creds, err = pki.OpenCredentials(t.TempDir(), id, nil); !errors.Is(err, pki.ErrNotJoined) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = nodelink.Join(ctx, nodelink.JoinOptions{
		Controller: flags["--controller"], Token: flags["--token"], Name: flags["--name"], Pin: pin, Credentials: n.creds,
	})
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	if len(controllers) == 0 {
		controllers = []string{flags["--controller"]}
	}
	n.connect(strings.Join(controllers, ","))
	return n
}

// connect holds a stream until the test ends.
func (n *plainNode) connect(controller string) {
	n.t.Helper()
	client := nodelink.NewClient(nodelink.ClientOptions{
		Controller: controller, Credentials: n.creds, Listener: n,
		Hello: func() nodeproto.Hello { return n.hello },
	})
	ctx, cancel := context.WithCancel(n.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = client.Run(ctx)
	}()
	n.t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// Up is a new stream.
func (n *plainNode) Up(s nodeproto.ToController) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stream = s
	n.report()
}

// Down is its end.
func (n *plainNode) Down(cause error) {
	n.mu.Lock()
	n.stream = nil
	n.mu.Unlock()
	n.downs <- cause
}

func (n *plainNode) report() { n.say(n.state) }

func (n *plainNode) say(m nodeproto.FromNode) {
	if n.stream != nil {
		_ = n.stream.Send(m) // a stream that has ended is followed by another
	}
}

// Received answers as a node does to which nothing bad happens.
func (n *plainNode) Received(m nodeproto.FromController) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch m := m.(type) {
	case nodeproto.Push:
		n.document = m.Document
		n.state.MD5, n.state.Generation, n.state.Source = m.MD5, m.Generation, "controller"
		n.state.Managed = &m.Managed
		n.state.Pending = nil
		if m.Confirm > 0 {
			n.state.Pending = &nodeproto.Pending{Generation: m.Generation, Remaining: m.Confirm, Settled: true}
		}
		for _, o := range []nodeproto.Outcome{nodeproto.Accepted, nodeproto.Applied} {
			n.say(nodeproto.Result{Attempt: m.Attempt, Generation: m.Generation, MD5: m.MD5, Outcome: o})
		}
		n.report()
		n.pushed <- m
	case nodeproto.Probe:
		n.say(nodeproto.Probed{Number: m.Number, Generation: n.state.Generation, MD5: n.state.MD5})
	case nodeproto.Confirm:
		n.state.Pending = nil
		n.report()
	case nodeproto.Number:
		n.state.Generation = m.Generation
		n.report()
	case nodeproto.Managed:
		n.state.Managed = &m.On
		n.report()
	case nodeproto.Ask:
		data := []byte(`{"actions":[]}`)
		if m.Kind == nodeproto.AskConfig {
			data = n.document
		}
		n.say(nodeproto.Answer{ID: m.ID, Data: data})
	}
}

// push waits for a push that holds a value.
func (n *plainNode) push(path []string, want any) nodeproto.Push {
	n.t.Helper()
	late := time.After(patience)
	for {
		select {
		case p := <-n.pushed:
			doc, faults := config.ParseObject(p.Document)
			if faults != nil {
				n.t.Fatal(faults)
			}
			if got, _ := config.Lookup(doc, path); got == want {
				return p
			}
		case <-late:
			n.t.Fatalf("no push with %s = %v", config.FormatPath(path), want)
		}
	}
}

// TestANodeJoinsByThePrintedCommandAndIsPushedTo goes from the first start to a node that
// runs what an operator wrote, and over a restart of the controller.
func TestANodeJoinsByThePrintedCommandAndIsPushedTo(t *testing.T) {
	dir := t.TempDir()
	c := started(t, dir)
	pin := c.pin()
	client := c.client(pin, c.token())
	n := joined(t, c.err.line(t, "edgespan join", c.ended))
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
	n.push([]string{"sysParams", "logLevel"}, "debug")
	awaitNode(t, client, firstNode, "in sync")

	if code := c.end(); code != term.ExitOK {
		t.Fatalf("it ended with %d", code)
	}
	select {
	case cause := <-n.downs:
		if cause == nil || !strings.Contains(cause.Error(), "shutting down") {
			t.Errorf("the node was sent away with %v", cause)
		}
	case <-time.After(patience):
		t.Fatal("the node was not sent away")
	}
	again := started(t, dir, "--node-listen", c.Nodes)
	client = again.client(pin, again.token())
	awaitNode(t, client, firstNode, "in sync")
	write(client, "warn")
	n.push([]string{"sysParams", "logLevel"}, "warn")
	awaitNode(t, client, firstNode, "in sync")
}

// TestATokenIsForOneNode plays a printed command twice.
func TestATokenIsForOneNode(t *testing.T) {
	c := started(t, t.TempDir())
	line := c.err.line(t, "edgespan join", c.ended)
	joined(t, line)
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

// awaitNode waits for a node's state.
func awaitNode(t *testing.T, client *fleetapi.Client, name, state string) {
	t.Helper()
	for late := time.Now().Add(patience); ; {
		n, err := client.Node(t.Context(), name)
		if err == nil && n.State == state {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("%s is %q (%s), not %q: %v\n%q", name, n.State, n.Why, state, err, n.Explain)
		}
		time.Sleep(20 * time.Millisecond)
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
	one := started(t, t.TempDir(), flags...)
	dir := t.TempDir()
	alone := launched(t, dir, nil, flags...)
	<-alone.ended
	if alone.code != term.ExitConflict || !strings.Contains(alone.err.String(), "ca.pem is missing") {
		t.Fatalf("a replica without the CA: %d: %s", alone.code, alone.err)
	}
	ca, err := os.ReadFile(filepath.Join(one.dir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "ca.pem", string(ca))
	two := started(t, dir, flags...)
	if strings.Contains(two.err.String(), "edgespan join") {
		t.Errorf("the second replica of a fleet invites its first node again:\n%s", two.err)
	}
	n := joined(t, one.err.line(t, "edgespan join", one.ended)) // what the first one printed still counts
	first, second := one.client(one.pin(), one.token()), two.client(one.pin(), two.token())
	if _, err := second.Write(t.Context(), ops.SetNetwork{Overrides: config.Object{
		"sysParams": config.Object{"managedConfig": true, "logLevel": "debug"},
	}}, fleetapi.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	n.push([]string{"sysParams", "logLevel"}, "debug")
	awaitNode(t, first, firstNode, "in sync")
	if _, err := two.client(one.pin(), one.token()).Nodes(t.Context()); err != nil {
		t.Errorf("the token of one replica at the other: %v", err)
	}
}

// TestAWriteToItsConfigChangesTheRunningController goes over REST: a level of the log, a flag,
// an action without a mapping, and the end of the process.
func TestAWriteToItsConfigChangesTheRunningController(t *testing.T) {
	c := started(t, t.TempDir())
	client := c.client(c.pin(), c.token())
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
	c.err.line(t, `"action":"UPDATE_GFLAG","state":"done"`, c.ended)
	c.err.line(t, `"action":"UPDATE_GLOG_LEVEL","state":"done"`, c.ended)
	set(`{"scanParams":{"a":1}}`)
	c.err.line(t, `"action":"UPDATE_SCAN_CONFIG","state":"unsupported"`, c.ended)
	set(`{"flags":{"config_confirm_timeout_s":"60","joins_per_second":"2"}}`)
	select {
	case <-c.ended:
	case <-time.After(patience):
		t.Fatal("REBOOT did not end it")
	}
	if c.code != term.ExitOK {
		t.Errorf("it ended with %d", c.code)
	}
	again := started(t, c.dir)
	doc, err := again.client(c.pin(), again.token()).E2E(t.Context(), "controller", false)
	if v, _ := config.Lookup(doc.Object, []string{"flags", "config_confirm_timeout_s"}); err != nil || v != "60" {
		t.Errorf("after the restart: %v, %v", v, err)
	}
}
