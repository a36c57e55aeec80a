package ctltest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"edgespan/config"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/platform/nodelink"
	"edgespan/platform/pki"
)

// Node is a node that accepts every push, applies nothing, and reports good health.
type Node struct {
	t     testing.TB
	creds *pki.Credentials
	hello nodeproto.Hello

	mu       sync.Mutex
	stream   nodeproto.ToController
	state    nodeproto.Report
	document []byte // current config
	pushed   chan nodeproto.Push
	Downs    chan error // why each of its streams ended
}

// Join joins a node by a printed command and connects it to the controller in the command, or to the given ones.
func Join(t testing.TB, command string, controllers ...string) *Node {
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
	n := &Node{t: t, pushed: make(chan nodeproto.Push, 16), Downs: make(chan error, 16), hello: nodeproto.Hello{
		Node: id.String(), Name: flags["--name"], Software: "EDGESPAN-0-1-0",
	}}
	n.hello.MD5 = config.MD5(config.Object{})
	n.document = []byte("{}")
	n.state = nodeproto.Report{MD5: n.hello.MD5, Software: n.hello.Software, Settled: true, Source: "file"}
	if n.creds, err = pki.OpenCredentials(t.TempDir(), id, nil); !errors.Is(err, pki.ErrNotJoined) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
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

// connect keeps a stream open until the test ends.
func (n *Node) connect(controller string) {
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

// Up is called with a new stream.
func (n *Node) Up(s nodeproto.ToController) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stream = s
	n.report()
}

// Down is called when the stream ends.
func (n *Node) Down(cause error) {
	n.mu.Lock()
	n.stream = nil
	n.mu.Unlock()
	n.Downs <- cause
}

func (n *Node) report() { n.send(n.state) }

func (n *Node) send(m nodeproto.FromNode) {
	if n.stream != nil {
		_ = n.stream.Send(m) // if the stream has ended, another one follows
	}
}

// Received answers like a node without faults.
func (n *Node) Received(m nodeproto.FromController) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch m := m.(type) {
	case nodeproto.Push:
		n.document = m.Document
		n.state.MD5, n.state.Generation, n.state.Source = m.MD5, m.Generation, "controller"
		n.state.Managed = &m.Managed
		n.state.Pending = nil
		if m.Confirm > 0 {
			n.state.Pending = &nodeproto.PendingReport{Generation: m.Generation, Remaining: m.Confirm, Settled: true}
		}
		for _, o := range []nodeproto.PushOutcome{nodeproto.Accepted, nodeproto.Applied} {
			n.send(nodeproto.Result{Attempt: m.Attempt, Generation: m.Generation, MD5: m.MD5, Outcome: o})
		}
		n.report()
		n.pushed <- m
	case nodeproto.Probe:
		n.send(nodeproto.Probed{Number: m.Number, Generation: n.state.Generation, MD5: n.state.MD5})
	case nodeproto.Confirm:
		n.state.Pending = nil
		n.report()
	case nodeproto.Number:
		n.state.Generation = m.Generation
		n.report()
	case nodeproto.Managed:
		n.state.Managed = &m.On
		n.report()
	case nodeproto.Request:
		data := []byte(`{"actions":[]}`)
		if m.Kind == nodeproto.RequestConfig {
			data = n.document
		}
		n.send(nodeproto.Answer{ID: m.ID, Data: data})
	}
}

// Push waits for a push that contains a value.
func (n *Node) Push(path []string, want any) nodeproto.Push {
	n.t.Helper()
	late := time.After(Timeout)
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

// Connected reports whether the node has a stream.
func (n *Node) Connected() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stream != nil
}

// AwaitNode waits until a controller shows a node in a state.
func AwaitNode(t testing.TB, client *fleetapi.Client, name, state string) {
	t.Helper()
	for late := time.Now().Add(Timeout); ; {
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
