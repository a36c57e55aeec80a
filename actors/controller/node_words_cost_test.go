package controller

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"edgespan/actors/controller/nodes"
	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/kv"
)

// Whatever a node sends, 20 times a second: what it makes the store, the log and other nodes spend is bounded, and
// another node has its config all the while.
func TestWhatEachWordOfANodeCosts(t *testing.T) {
	const seconds = 20
	long := strings.Repeat("w", 30_000)
	report := func(change func(i int, r *nodeproto.Report)) func(*fakeNode, int) nodeproto.FromNode {
		return func(n *fakeNode, i int) nodeproto.FromNode {
			r := n.report()
			change(i, &r)
			return r
		}
	}
	result := func(of func(i int) nodeproto.Result) func(*fakeNode, int) nodeproto.FromNode {
		return func(n *fakeNode, i int) nodeproto.FromNode {
			r := of(i)
			r.MD5, r.Faults = n.md5, config.Faults{{Path: []string{"x"}, Problem: long + fmt.Sprint(i)}}
			return r
		}
	}
	for name, word := range map[string]func(n *fakeNode, i int) nodeproto.FromNode{
		"held": report(func(i int, r *nodeproto.Report) { r.Held = &nodeproto.Held{By: fmt.Sprint(i) + long} }),
		"held on-off": report(func(i int, r *nodeproto.Report) {
			r.Held = map[bool]*nodeproto.Held{true: {By: fmt.Sprint(i)}}[i%2 == 0]
		}),
		"md5":        report(func(i int, r *nodeproto.Report) { r.MD5 = fmt.Sprintf("%032d", i) }),
		"md5 on-off": report(func(i int, r *nodeproto.Report) { r.MD5 = []string{r.MD5, fmt.Sprintf("%032d", i)}[i%2] }),
		"generation": report(func(i int, r *nodeproto.Report) { r.Generation.Counter = uint64(i) }),
		"pending": report(func(i int, r *nodeproto.Report) {
			r.Pending = map[bool]*nodeproto.PendingReport{true: {Generation: r.Generation, Settled: true}}[i%2 == 0]
		}),
		"managed": report(func(i int, r *nodeproto.Report) { on := i%2 == 0; r.Managed = &on }),
		"health": report(func(i int, r *nodeproto.Report) {
			r.Health = []nodeproto.HealthReport{{Name: fmt.Sprint("h", i), Good: i%2 == 0, Detail: long}}
		}),
		"board": report(func(i int, r *nodeproto.Report) { r.Board = fmt.Sprint("board", i) }),
		"parameters": report(func(i int, r *nodeproto.Report) {
			for p := range 500 {
				r.Parameters = append(r.Parameters,
					nodeproto.ParameterReport{ID: fmt.Sprint("p", i, p), Kind: "x", State: "CreatingFailed"})
			}
		}),
		"not stored": result(func(int) nodeproto.Result {
			return nodeproto.Result{Attempt: 1,
				Outcome: nodeproto.NotStored}
		}),
		"unhealthy": result(func(i int) nodeproto.Result {
			return nodeproto.Result{Attempt: uint64(i % 4), Outcome: nodeproto.Unhealthy}
		}),
		"unknown": result(func(i int) nodeproto.Result { return nodeproto.Result{Attempt: uint64(i), Outcome: 77} }),
		"probed": func(n *fakeNode, i int) nodeproto.FromNode {
			return nodeproto.Probed{Number: uint64(i), MD5: n.md5, Worse: []string{long}}
		},
		"answer": func(_ *fakeNode, i int) nodeproto.FromNode {
			return nodeproto.Answer{ID: uint64(i), Data: []byte(long)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			onRig(t, func(r *rig) {
				core, logs := observer.New(zap.InfoLevel)
				r.change = func(o *Options) {
					o.Log, o.Shared = zap.New(core), true
					o.Flags = map[string]string{"config_staged_rollout_enabled": "true"}
				}
				a := r.start("a")
				r.synced(a, "n1")
				r.node(a, "n2")
				r.network(a, `{"sysParams":{"managedConfig":true},"envParams":{"A":"3"}}`)
				r.pass(2 * time.Minute)
				n, other := r.nodes["n1"], r.nodes["n2"]
				logs.TakeAll()
				owned, _ := n.got()
				others, _ := other.got()
				s, stop := r.watched(kv.Prefix(""))
				defer stop()
				r.say(a, n, seconds, func(i int) nodeproto.FromNode {
					n.mu.Lock()
					defer n.mu.Unlock()
					return word(n, i)
				})
				writes, bytes, largest := s.got()
				if limit := storage.WritesAtOnce + seconds*storage.WritesPace; writes > limit || bytes > storage.BytesAtOnce ||
					largest > nodes.MaxReported {
					t.Errorf("%d writes of %d bytes, the largest of %d", writes, bytes, largest)
				}
				if after, _ := n.got(); after-owned > 3 {
					t.Errorf("%d pushes to it", after-owned)
				}
				if after, _ := other.got(); after > others {
					t.Errorf("%d pushes to another node", after-others)
				}
				if n := logs.Len(); n > nodes.MaxLines {
					t.Errorf("%d lines", n)
				}
			})
		})
	}
}
