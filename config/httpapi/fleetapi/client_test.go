package fleetapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"edgespan/config"
	"edgespan/config/fleet/backup"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/fleet/optimize"
	"edgespan/config/httpapi/rest"
	"edgespan/config/layers"
	overridepkg "edgespan/config/layers/override"
)

// clientOf returns a client of a fake over TCP.
func clientOf(t *testing.T, f *fake, token string, more ...Option) *Client {
	t.Helper()
	s := httptest.NewServer(Handler(f, append(more, WithTokens(fakeHash))...))
	t.Cleanup(s.Close)
	c, err := NewClient(Options{URL: s.URL + "/", Token: token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

const bigInt = int64(1)<<60 + 1

func TestClientReads(t *testing.T) {
	f := &fake{}
	c := clientOf(t, f, "t-admin")
	ctx := t.Context()
	odd := `a,b "c"/..` // a name that every layer of encoding has to preserve
	heard := func(want string) func(any, error) {
		return func(got any, err error) {
			t.Helper()
			if h := f.taken(); err != nil || h != want {
				t.Errorf("%v, heard %s\n wanted %s", err, h, want)
			}
		}
	}
	heard("Nodes")(c.Nodes(ctx))
	heard("Node " + odd)(c.Node(ctx, odd))
	heard("Config {Node:" + odd +
		" Paths:[[a b,c d.e] [* x]] Versions:{Software:s Firmware:f Board:b} Reveal:true}")(c.Config(ctx, ops.ConfigQuery{
		Node: odd, Paths: [][]string{{"a", "b,c", "d.e"}, {"*", "x"}}, Reveal: true,
		Versions: layers.Versions{Software: "s", Firmware: "f", Board: "b"},
	}))
	heard("Paths {Nodes:[" + odd + "  n] Paths:[[a]] Reveal:false After: Limit:0}")(c.Paths(ctx,
		ops.PathsQuery{Nodes: []string{odd, "", "n"}, Paths: [][]string{{"a"}}}))
	heard(`Explain n1 ["a" "b,c"]`)(c.Explain(ctx, "n1", []string{"a", "b,c"}))
	heard(`Explain n1 []`)(c.Explain(ctx, "n1", nil))
	heard("Layer {Layer:hardware Nodes:[] Versions:[1,2] Boards:[" + odd +
		"] Reveal:true}")(c.Layer(ctx,
		ops.LayerQuery{Layer: layers.Hardware, Versions: []string{"1,2"}, Boards: []string{odd}, Reveal: true}))
	heard("Layer {Layer:node Nodes:[" + odd + "] Versions:[] Boards:[] Reveal:false}")(c.NodeLayer(ctx, odd, false))
	heard("Metadata node")(c.Metadata(ctx, "node"))
	heard("Metadata aggregator")(c.Metadata(ctx, "aggregator"))
	heard("E2E controller true")(c.E2E(ctx, "controller", true))
	heard("Topology")(c.Topology(ctx))
	heard("Topology")(c.TopologyObject(ctx, "link", "link-n1-n2"))
	heard("History node/n%2F1 before=5 limit=2")(c.History(ctx,
		HistoryQuery{Layer: &history.Layer{Kind: history.Node, Name: "n/1"}, Before: 5, Limit: 2}))
	heard("History any before=4 limit=1; Diff 2 3")(c.Revision(ctx, 3))
	heard("Diff 2 3")(c.Diff(ctx, 2, 3))
	heard("Rollouts")(c.Rollouts(ctx))
	heard("Rollouts")(c.Rollout(ctx, 3))
	heard("ExplainRollout 3")(c.ExplainRollout(ctx, 3))
	heard("CommandRollout 3 revert by=admin-1")(nil, c.CommandRollout(ctx, 3, RevertRollout))
	heard("Peers")(c.Peers(ctx))
	heard("Peer p1")(c.Peer(ctx, "p1"))
	heard("Clusters")(c.Clusters(ctx))
	heard("Cluster lab")(c.Cluster(ctx, "lab"))
	heard("PreviewResult " + odd)(c.PreviewResult(ctx, odd))
	heard("Operators")(c.Operators(ctx))
	heard("AddOperator bob viewer <nil> by=admin-1")(c.AddOperator(ctx, OperatorToken{Name: "bob", Role: Viewer}))
	heard("RemoveOperator "+odd+" by=admin-1")(nil, c.RemoveOperator(ctx, odd))
	heard("Export true")(c.Export(ctx, true))
	heard("Backup unknown")(c.Backup(ctx, io.Discard))
	heard("Ready")(nil, c.Ready(ctx))
	heard("Invite n1 1h0m0s true by=admin-1")(c.Invite(ctx, "n1", time.Hour, true))
	heard("Invite n1 0s false by=admin-1")(c.Invite(ctx, "n1", 0, false))
	for _, cmd := range []Command{Retry, Release, AdoptImport, AdoptReplace, Confirm, Renew, Forget} {
		heard("Command n1 "+string(cmd)+" by=admin-1")(nil, c.Command(ctx, "n1", cmd))
	}
}

// The client returns what the backend answered, including integers of 64 bits.
func TestClientHasWhatTheBackendSaid(t *testing.T) {
	f := &fake{}
	c := clientOf(t, f, "t-admin")
	ctx := t.Context()
	same := func(name string, got, want any, err error) {
		t.Helper()
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%s: %v\n%s", name, err, d)
		}
	}
	layer, err := c.Layer(ctx, ops.LayerQuery{Layer: layers.Node})
	want, _ := f.Layer(ctx, ops.LayerQuery{Layer: layers.Node})
	same("layer", layer, want, err)
	cfg, err := c.Config(ctx, ops.ConfigQuery{Node: "n1"})
	same("config", cfg, ops.DocumentAnswer{Object: config.Object{"a": config.Object{"b": int64(1)}}, Digest: "d1"}, err)
	exported, err := c.Export(ctx, false)
	files, _, _ := f.Export(ctx, false)
	same("export", exported.Files.History(), files, err)
	explained, err := c.Explain(ctx, "n1", nil)
	same("explain", explained, []Explanation{
		{
			Path: `a."b.c"`, Value: bigInt, Origin: "node", By: &By{Number: 3, Author: "ann", Time: at, Message: "why"},
			Shadowed: []Shadow{{Layer: "base", Path: "a", Value: "x"}},
		},
		{Path: "z", Origin: "base", Shadowed: []Shadow{}},
	}, err)
	diff, err := c.Diff(ctx, 1, 2)
	same("diff", diff, []LayerDiff{{Layer: "node/n1", Before: 1, After: 2,
		Values: []Value{{Path: "a.b", New: bigInt, HasNew: true}}}}, err)
	p, err := c.PreviewResult(ctx, "p1")
	wantP, _ := f.PreviewResult(ctx, "p1")
	same("preview", p, wantP, err)
	node, err := c.Node(ctx, "n1")
	same("node", node, NodeDetail{
		Node: Node{Name: "n1"}, Explain: []string{}, Health: []Item{{Name: "uplink", Good: true}}, Parameters: []Parameter{},
		Actions:  []Done{},
		Failures: []Failure{{MD5: "x", At: at}},
	}, err)
}

// A backup arrives as it was written. An interrupted one is an error, and so is one whose receiver has no space; all of
// them are in the audit log.
func TestClientBacksUp(t *testing.T) {
	audited := make(chan Entry, 9)
	hear := rest.WithAudit(func(e Entry) { audited <- e })
	c := clientOf(t, &fake{}, "t-admin", hear)
	var out bytes.Buffer
	h, err := c.Backup(t.Context(), &out)
	if err != nil || h.Store != "s1" || h.Keys != 1 || bytes.Count(out.Bytes(), []byte("\n")) != 3 {
		t.Errorf("%+v, %v\n%s", h, err, &out)
	}
	if _, err := backup.Check(&out); err != nil {
		t.Error(err)
	}
	full := errors.New("no space left")
	if _, err := c.Backup(t.Context(), taker{full}); !errors.Is(err, full) {
		t.Errorf("on a full disk: %v", err)
	}
	if _, err := clientOf(t, &fake{cut: true}, "t-admin", hear).Backup(t.Context(), io.Discard); !errors.Is(err,
		rest.ErrUnreachable) {
		t.Errorf("cut off: %v", err)
	}
	for range 3 {
		if e := <-audited; e.Path != Prefix+"backup" || e.Caller != "admin-1" || !e.Reveal {
			t.Errorf("audited: %+v", e)
		}
	}
	if _, err := clientOf(t, &fake{}, "t-operator").Backup(t.Context(), io.Discard); !errors.Is(err,
		rest.ErrPermission) {
		t.Errorf("an operator: %v", err)
	}
}

type taker struct{ err error }

func (f taker) Write([]byte) (int, error) { return 0, f.err }

func TestClientWrites(t *testing.T) {
	o := config.Object{"a": config.Object{"<&>": bigInt, "f": 1.5}}
	seven := uint64(7)
	nodes := config.Object{"n1": o}
	for _, w := range []ops.Write{
		ops.SetNetwork{Overrides: o},
		ops.SetNetwork{Overrides: o, Modify: true},
		ops.SetNetwork{},
		ops.SetNodes{Overrides: nodes},
		ops.SetNodes{Overrides: nodes, Modify: true},
		ops.Unset{Layer: layers.Network, Keys: [][]string{{"a", "b.c"}, {"d,e"}}},
		ops.Unset{Layer: layers.Node, Keys: [][]string{{"n1"}}},
		ops.ClearAuto{Nodes: []string{"n1"}, Paths: [][]string{{"a", "b"}}},
		ops.SetE2E{File: "controller", Config: o, Replica: "r1"},
		ops.SetE2E{File: "aggregator", Config: o, Modify: true},
		ops.Optimize{Kinds: []optimize.Kind{optimize.Superframe}, ClearUser: true},
		ops.Optimize{Kinds: []optimize.Kind{optimize.Polarity}},
		ops.SetTopology{Document: config.Object{"nodes": []any{o}}},
		ops.EditTopology{Object: "node", Op: "add", Document: o},
		ops.EditTopology{Object: "link", Op: "edit", Name: "l/1", Document: o},
		ops.EditTopology{Object: "site", Op: "delete", Name: "s"},
		ops.EditTopology{Object: "site", Op: "rename", Name: "s", To: "t"},
		ops.Restore{Revision: 3, Layers: []history.Layer{{Kind: history.Node, Name: "a,b"}, {Kind: history.Topology}}},
		ops.Restore{Revision: 4},
		ops.Revert{Revision: 5},
		ops.Describe{Documents: []config.Object{{"kind": "PeerDescriptor", "metadata": config.Object{"name": "a/b"}}}},
		ops.Describe{Documents: []config.Object{{"kind": "ClusterDescriptor", "metadata": config.Object{"name": "c"}}}},
		ops.Describe{Documents: []config.Object{{"kind": "PeerDescriptor"}}},
		ops.Describe{Documents: []config.Object{{"kind": "PeerDescriptor", "metadata": config.Object{"name": "c"}}, o}},
		ops.Undescribe{Kind: "PeerDescriptor", Names: []string{"a/b"}},
		ops.Undescribe{Kind: "ClusterDescriptor", Names: []string{"c"}},
		ops.Deploy{Clusters: []string{"c"}},
		ops.Undeploy{Clusters: []string{"c"}},
		ops.Import{Files: history.Files{Network: o, Topology: config.Object{},
			E2E: map[string]config.Object{"controller": o}}},
	} {
		f := &fake{}
		c := clientOf(t, f, "t-admin")
		got, err := c.Write(t.Context(), w, WriteOptions{Message: "a & b", DryRun: true})
		want := fmt.Sprintf("Write %T%+v by=admin-1 message=%q if=map[] dry=true", w, w, "a & b")
		if heard := f.taken(); err != nil || heard != want || !got.DryRun || got.Revision != 10 {
			t.Errorf("%v\n heard  %s\n wanted %s", err, heard, want)
		}
		switch w.(type) {
		case ops.SetNetwork, ops.SetNodes:
			p, err := c.Preview(t.Context(), w)
			if heard := f.taken(); err != nil || p.ID != "p1" || heard != fmt.Sprintf("Preview %T%+v by=admin-1", w, w) {
				t.Errorf("preview: %v %s", err, heard)
			}
		}
	}
	f := &fake{}
	c := clientOf(t, f, "t-admin")
	_, err := c.Write(t.Context(), ops.SetNetwork{Overrides: o}, WriteOptions{IfMatch: &seven})
	if heard := f.taken(); err != nil || !strings.Contains(heard, "if=map[network:7]") {
		t.Errorf("%v, heard %s", err, heard)
	}
	for _, w := range []ops.Write{ops.SetAuto{}, ops.Optimize{}, ops.EditTopology{Object: "node", Op: "eat"}, ops.Deploy{},
		ops.Undescribe{Kind: "x", Names: []string{"y"}}} {
		if _, err := c.Write(t.Context(), w, WriteOptions{}); err == nil || f.taken() != "" {
			t.Errorf("%T: has no route, and no error", w)
		}
	}
	if _, err := c.Preview(t.Context(), ops.Revert{}); err == nil {
		t.Error("a preview of a revert")
	}
}

func TestClientErrorsAreThoseOfTheExitCodes(t *testing.T) {
	faults := overridepkg.WriteFaults{{Nodes: []string{"n1"}, Path: []string{"a", "b.c"}, Rule: "type", Layer: "node",
		Problem: "invalid value 5", Expectation: "must be a string"},
		{Path: []string{"z"}, Rule: "request", Problem: "is gone"}}
	for _, c := range []struct {
		err  error
		kind error
	}{
		{&ops.NotFoundError{What: "node n1"}, rest.ErrNotFound},
		{history.Conflicts{{Layer: history.Layer{Kind: history.Network}, Expected: 1,
			By: history.RevisionRecord{Number: 2, Author: "ann"}}}, rest.ErrConflict},
		{ErrRefused, rest.ErrConflict},
		{ErrBusy, rest.ErrBusy},
		{context.DeadlineExceeded, rest.ErrTimeout},
	} {
		_, err := clientOf(t, &fake{err: c.err}, "t-admin").Nodes(t.Context())
		if !errors.Is(err, c.kind) {
			t.Errorf("%v: %v", c.err, err)
		}
	}
	_, err := clientOf(t, &fake{err: &ops.Refused{Faults: faults}}, "t-admin").Write(t.Context(), ops.SetNetwork{},
		WriteOptions{})
	var rejected *rest.Rejected
	if !errors.As(err, &rejected) || err.Error() != faults.Error() ||
		strings.Join(rejected.Faults, "\n") != faults.Error() {
		t.Errorf("got %v\n wanted %v", err, faults)
	}
	_, err = clientOf(t, &fake{}, "t-admin").History(t.Context(), HistoryQuery{Layer: &history.Layer{Kind: history.Node}})
	if err != nil {
		t.Error(err)
	}
	if _, err = clientOf(t, &fake{err: errors.New("secret")}, "t-admin").Nodes(t.Context()); err == nil ||
		strings.Contains(err.Error(), "secret") || errors.Is(err, rest.ErrBusy) {
		t.Errorf("an error of the controller: %v", err)
	}
	for _, token := range []string{"", "t-nobody", "bad"} {
		if _, err := clientOf(t, &fake{}, token).Nodes(t.Context()); !errors.Is(err, rest.ErrPermission) ||
			strings.Contains(err.Error(), "nobody") {
			t.Errorf("token %q: %v", token, err)
		}
	}
	if err := clientOf(t, &fake{}, "t-viewer").Command(t.Context(), "n1", Retry); !errors.Is(err, rest.ErrPermission) {
		t.Error(err)
	}
}

func TestClientOfWhatIsNoController(t *testing.T) {
	for _, u := range []string{"", "controller:8443", "ftp://x", "https://", "https://u:p@x", "https://x?y", "https://x#y",
		"http://[::1"} {
		if _, err := NewClient(Options{URL: u}); err == nil {
			t.Errorf("%q is taken", u)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	c, _ := NewClient(Options{URL: "http://" + l.Addr().String(), Token: "t-secret"})
	if _, err := c.Nodes(t.Context()); !errors.Is(err, rest.ErrUnreachable) || strings.Contains(err.Error(), "secret") {
		t.Errorf("nobody there: %v", err)
	}
	var tokens []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter,
		r *http.Request) {
		tokens = append(tokens, r.Header.Get("Authorization"))
	}))
	defer other.Close()
	for name, h := range map[string]http.HandlerFunc{
		"redirects":     func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) },
		"no JSON":       func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) },
		"an error page": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) },
	} {
		s := httptest.NewServer(h)
		c, _ := NewClient(Options{URL: s.URL, Token: "t-secret"})
		_, err := c.Nodes(t.Context())
		_, err2 := c.Topology(t.Context())
		if err == nil || err2 == nil || len(tokens) > 0 {
			t.Errorf("%s: %v, %v, tokens went elsewhere: %q", name, err, err2, tokens)
		}
		s.Close()
	}
	hung := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hung.Close()
	c, _ = NewClient(Options{URL: hung.URL})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Nodes(ctx); !errors.Is(err, rest.ErrTimeout) {
		t.Errorf("nobody answers: %v", err)
	}
	tls := httptest.NewTLSServer(Handler(&fake{}, WithNoAuth()))
	defer tls.Close()
	c, _ = NewClient(Options{URL: tls.URL})
	if _, err := c.Nodes(t.Context()); !errors.Is(err, rest.ErrUnreachable) {
		t.Errorf("nobody that is trusted: %v", err)
	}
	c, _ = NewClient(Options{URL: tls.URL, Transport: tls.Client().Transport})
	if _, err := c.Nodes(t.Context()); err != nil {
		t.Error(err)
	}
}
