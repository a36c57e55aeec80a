package guest

import (
	"context"
	"maps"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"edgespan/actors/node/api"
	"edgespan/actors/node/census"
	"edgespan/actors/node/console"
	"edgespan/actors/shell"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst/probe"
	"edgespan/platform/store"
	"edgespan/pubsub/shellproto"
)

// A daemon's records, as its shell shows them, are what a copy of its journal has, except for what never got there.
func TestRecordsAreReadFromTheDaemonAndFromItsJournal(t *testing.T) {
	dir, err := os.MkdirTemp("", "soak") // a short path: that of a socket has at most 107 octets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	j, err := store.OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	topics, err := api.NewTopics(j, nil)
	if err != nil {
		t.Fatal(err)
	}
	publish(t, topics)
	socket := serveTopics(t, dir, topics)

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := readRecords(ctx, socket, dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Known) != 3 || !maps.Equal(r.Known, r.Stored) || r.Known["network-instance-number b"] != "2" {
		t.Errorf("%+v", r)
	}
	if err := j.Put("network-instance-number", "0:/b", []byte("3")); err != nil { // behind the daemon's back
		t.Fatal(err)
	}
	r, err = readRecords(ctx, socket, dir)
	if err != nil || r.Known["network-instance-number b"] != "2" || r.Stored["network-instance-number b"] != "3" {
		t.Errorf("%+v, %v", r, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "journal"), []byte("no journal at all"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err = readRecords(ctx, socket, dir); err == nil {
		t.Errorf("a damaged journal: %+v", r)
	}
}

func publish(t *testing.T, topics *api.Topics) {
	t.Helper()
	numbers := topics.Numbers.Publisher(api.OwnerRouter)
	for key, n := range map[string]int{"a": 1, "b": 7} {
		if err := numbers.Publish("", key, n); err != nil {
			t.Fatal(err)
		}
	}
	if err := numbers.Publish("", "b", 2); err != nil {
		t.Fatal(err)
	}
	if err := topics.ProbeBudgets.Publisher(api.OwnerProbes).Publish("", "wwan0", probe.Budget{}); err != nil {
		t.Fatal(err)
	}
}

func serveTopics(t *testing.T, dir string, topics *api.Topics) (socket string) {
	t.Helper()
	socket = filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	s := &shell.Server{Log: zap.NewNop(),
		Node:     &console.Console{Topics: topics, Census: census.New(), Record: func(nodeapi.Event) {}},
		Identify: func(net.Conn) (shellproto.Who, error) { return shellproto.Who{}, nil }}
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return socket
}
