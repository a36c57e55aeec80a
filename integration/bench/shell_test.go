package bench

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/node/api"
	"edgespan/actors/node/census"
	"edgespan/actors/node/console"
	"edgespan/actors/shell"
	"edgespan/actors/supervise"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst"
	"edgespan/pubsub/loglevel"
	"edgespan/pubsub/shellproto"
)

// noJournal keeps nothing.
type noJournal struct{}

func (noJournal) Load(string) (map[string][]byte, error) { return nil, nil }
func (noJournal) Put(string, string, []byte) error       { return nil }
func (noJournal) Delete(string, string) error            { return nil }

// tailed is an actor that gets messages at a rate, and the shell server of its node.
type tailed struct {
	b    *testing.B
	path string
	sent atomic.Int64
}

func newTailed(b *testing.B, rate int) *tailed {
	b.Helper()
	dir, err := os.MkdirTemp("", "shell")
	if err != nil {
		b.Fatal(err)
	}
	t := &tailed{b: b, path: filepath.Join(dir, "s")}
	topics, err := api.NewTopics(noJournal{}, nil)
	if err != nil {
		b.Fatal(err)
	}
	c, system := census.New(), supervise.System(zap.NewNop(), 1)
	c.Mask = (&console.Secrets{Topics: topics}).Mask
	pid, err := system.Root.SpawnNamed(actor.PropsFromFunc(func(actor.Context) {},
		c.Options(false, func(string) {})...), "worker")
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("unix", t.path)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &shell.Server{Log: zap.NewNop(), Node: &console.Console{Census: c, System: system, Topics: topics,
		Log: zap.NewNop(), Record: func(nodeapi.Event) {}, Levels: loglevel.New(nil, loglevel.Info, func(loglevel.Change) {})},
		Identify: func(net.Conn) (shellproto.Who, error) { return shellproto.Who{}, nil }}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	go func() {
		for tick := time.NewTicker(10 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			for range rate / 100 {
				system.Root.Send(pid, netinst.AppAdapterConfig{TargetVersion: 7})
				t.sent.Add(1)
			}
		}
	}()
	b.Cleanup(func() { cancel(); <-served; system.Shutdown(); _ = os.RemoveAll(dir) })
	return t
}

// processor returns what this process has used of the processor.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkATailOfTenThousand measures what a tail of an actor with 10,000 messages a second costs: the processor of
// this process with it, less that without. Both ends are in this process.
func BenchmarkATailOfTenThousand(b *testing.B) {
	const long = 5 * time.Second
	t := newTailed(b, 10_000)
	share := func() float64 {
		before, began, sent := processor(b), time.Now(), t.sent.Load()
		<-time.After(long)
		if n := float64(t.sent.Load()-sent) / long.Seconds(); n < 9_000 {
			b.Errorf("%.0f messages a second", n)
		}
		return 100 * (processor(b) - before).Seconds() / time.Since(began).Seconds()
	}
	s, err := shell.Dial(b.Context(), t.path)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // a benchmark
	var without, with, shown, dropped float64
	for b.Loop() {
		without += share()
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- s.Do(ctx, shellproto.Request{Op: "tail", Args: []string{"worker"}}, func(f shellproto.Frame) error {
				shown++
				dropped += float64(f.Dropped)
				return nil
			})
		}()
		with += share()
		cancel()
		<-ended
	}
	n := float64(b.N)
	b.ReportMetric((with-without)/n, "%core")
	b.ReportMetric(without/n, "%core-without")
	b.ReportMetric(shown/n/long.Seconds(), "shown/s")
	b.ReportMetric(dropped/n/long.Seconds(), "dropped/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkAttachAndAnswer measures how long a shell takes to attach and get its first answer.
func BenchmarkAttachAndAnswer(b *testing.B) {
	t := newTailed(b, 100)
	for b.Loop() {
		s, err := shell.Dial(b.Context(), t.path)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Do(b.Context(), shellproto.Request{Op: "tree"}, func(shellproto.Frame) error { return nil }); err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
