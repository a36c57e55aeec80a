package fleetapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"edgespan/config"
	"edgespan/config/events"
	"edgespan/config/fleet/backup"
	"edgespan/config/fleet/bisect"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/rest"
	"edgespan/config/kv"
	"edgespan/config/layers"
)

// fake is a controller that records its requests, and answers err if it is set.
type fake struct {
	mu      sync.Mutex
	asked   []string
	err     error
	cut     bool          // a backup is interrupted
	hold    chan struct{} // Nodes waits for it
	entered chan struct{}

	changes chan func(*fake) // changes of peers, with mu; closed: a controller that ends
	pending string           // a further reason why p1 isn't ready
	gone    bool             // p1 is gone
	age     float64          // of p1's last report, seconds
}

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// fakeHash replaces pki.OperatorTokenHash: a token is "t-" and a name.
func fakeHash(token string) (string, error) {
	name, ok := strings.CutPrefix(token, "t-")
	if !ok {
		return "", errors.New("no token: " + token)
	}
	return "hash of " + name, nil
}

func (f *fake) note(format string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, fmt.Sprintf(format, args...))
	return f.err
}

// taken returns the requests since the last call.
func (f *fake) taken() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := strings.Join(f.asked, "; ")
	f.asked = nil
	return out
}

func (f *fake) Authenticate(ctx context.Context, hash string) (Caller, error) {
	name := strings.TrimPrefix(hash, "hash of ")
	switch name {
	case "viewer", "operator", "admin", "wizard":
		return Caller{Name: name + "-1", Role: Role(name)}, nil
	case "slow":
		<-ctx.Done()
		return Caller{}, ctx.Err()
	case "broken":
		return Caller{}, errors.New("the store has secret trouble")
	}
	return Caller{}, ErrNoToken
}

func (f *fake) Known(hash string) (Caller, bool) {
	name := strings.TrimPrefix(hash, "hash of ")
	return Caller{Name: name + "-1", Role: Role(name)}, name == "viewer" || name == "operator" || name == "admin"
}

func (f *fake) Config(_ context.Context, q ops.ConfigQuery) (ops.DocumentAnswer, error) {
	return ops.DocumentAnswer{Object: config.Object{"a": config.Object{"b": int64(1)}}, Digest: "d1"},
		f.note("Config %+v", q)
}

func (f *fake) Paths(_ context.Context, q ops.PathsQuery) (ops.DocumentAnswer, error) {
	return ops.DocumentAnswer{Object: config.Object{"n1": config.Object{"a": int64(1)}}, Digest: "d2"},
		f.note("Paths %+v", q)
}

// Layer has network at 5, node n1 at 7 and n2 at 3; n9 was never written.
func (f *fake) Layer(_ context.Context, q ops.LayerQuery) (ops.DocumentAnswer, error) {
	err := f.note("Layer %+v", q)
	d := ops.DocumentAnswer{Object: config.Object{"key": "<&>"}, Revision: 5, Digest: "d3"}
	if q.Layer == layers.Node || q.Layer == layers.Auto {
		d.Object, d.Revision = config.Object{"n1": config.Object{"key": int64(1) << 60}, "n2": config.Object{}}, 7
		if len(q.Nodes) == 1 {
			d.Object = config.Object{q.Nodes[0]: config.Object{"key": int64(1) << 60}}
			d.Revision = map[string]uint64{"n1": 7, "n2": 3}[q.Nodes[0]]
		}
		if d.Revision == 0 {
			d.Object = nil
		}
	}
	return d, err
}

func (f *fake) Metadata(_ context.Context, of string) (ops.DocumentAnswer, error) {
	return ops.DocumentAnswer{Object: config.Object{"x": config.Object{"desc": of}}}, f.note("Metadata %s", of)
}

func (f *fake) E2E(_ context.Context, file string, reveal bool) (ops.DocumentAnswer, error) {
	return ops.DocumentAnswer{Object: config.Object{"flags": config.Object{"v": "1"}}, Revision: 6},
		f.note("E2E %s %t", file, reveal)
}

func (f *fake) Export(_ context.Context, reveal bool) (history.Files, uint64, error) {
	return history.Files{
		Network: config.Object{"big": int64(1)<<60 + 1}, E2E: map[string]config.Object{"controller": {"a": 1.5}},
	}, 9, f.note("Export %t", reveal)
}

// Backup returns the backup of a store with a fleet's key.
func (f *fake) Backup(_ context.Context, version string) (func(context.Context, io.Writer) error, error) {
	m := modelReader{kv.NewModel()}
	_, err := m.Commit(kv.Txn{Then: []kv.Op{kv.Put(history.FleetKey(), []byte("{}"))}})
	if err != nil {
		return nil, err
	}
	s, err := backup.Open(m, backup.Header{Version: version, Store: "s1", Time: at})
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, w io.Writer) error {
		if f.cut {
			_, err := io.WriteString(w, "{")
			return errors.Join(err, errors.New("the store is gone"))
		}
		return s.Write(m, w)
	}, f.note("Backup %s", version)
}

// Support sends "archive" as the archive of any node.
func (f *fake) Shell(_ context.Context, node string, q nodeproto.ShellRequest) (Archive, error) {
	return Archive{Close: func() { _ = f.note("Shell closed") }, Write: func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, "{\"end\":true}\n")
		return err
	}}, f.note("Shell %s %+v", node, q)
}

func (f *fake) Support(_ context.Context, node string, q nodeproto.SupportRequest) (Archive, error) {
	return Archive{Close: func() { _ = f.note("Support closed") }, Write: func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, "archive")
		return err
	}}, f.note("Support %s %+v", node, q)
}

// modelReader adapts a model to the reader that config/fleet/history expects.
type modelReader struct{ *kv.Model }

func (modelReader) Get(...kv.Key) ([]kv.Entry, error) {
	return nil, errors.New("nobody gets")
}

func (f *fake) Topology(context.Context) (ops.DocumentAnswer, error) {
	return ops.DocumentAnswer{Object: config.Object{
		"name":  "net",
		"nodes": []any{config.Object{"name": "n1", "node_type": int64(2)}, config.Object{"name": "n2"}},
		"links": []any{config.Object{"name": "link-n1-n2"}},
		"sites": []any{config.Object{"name": "roof"}},
	}, Revision: 8}, f.note("Topology")
}

func (f *fake) Explain(_ context.Context, node string, path []string) ([]history.ValueHistory, error) {
	e := history.ValueHistory{
		ValueOrigin: layers.ValueOrigin{Path: []string{"a", "b.c"}, Value: int64(1)<<60 + 1, Origin: layers.Node},
		By:          &history.RevisionRecord{Number: 3, Author: "ann", Time: at, Message: "why"},
	}
	e.Shadowed = []history.ShadowedBy{{ShadowedValue: layers.ShadowedValue{Layer: layers.Base, Path: []string{"a"},
		Value: "x"}}}
	return []history.ValueHistory{e, {ValueOrigin: layers.ValueOrigin{Path: []string{"z"}}}},
		f.note("Explain %s %q", node, path)
}

func (f *fake) History(_ context.Context, q HistoryQuery) ([]Edition, error) {
	l := "any"
	if q.Layer != nil {
		l = q.Layer.String()
	}
	n := uint64(9)
	if q.Before > 0 {
		n = q.Before - 1
	}
	if n > 9 || l == "node/n9" {
		return nil, f.note("History %s before=%d limit=%d", l, q.Before, q.Limit)
	}
	return []Edition{{Number: n, Author: "ann", Time: at, Message: "why", Layers: []string{"network"}}},
		f.note("History %s before=%d limit=%d", l, q.Before, q.Limit)
}

func (f *fake) Diff(_ context.Context, from, to uint64) ([]history.LayerDiff, error) {
	return []history.LayerDiff{{
		Layer: history.Layer{Kind: history.Node, Name: "n1"}, Before: history.Version{Revision: 1},
		After:  history.Version{Revision: 2},
		Values: []history.ValueDiff{{Path: []string{"a", "b"}, New: int64(1)<<60 + 1, HasNew: true}},
	}}, f.note("Diff %d %d", from, to)
}

func (f *fake) Write(_ context.Context, r WriteRequest) (Written, error) {
	return Written{Revision: 10, Changed: true, DryRun: r.DryRun, Message: "Success."},
		f.note("Write %T%+v by=%s message=%q if=%v dry=%t", r.Write, r.Write, r.Caller.Name, r.Message, r.IfMatch, r.DryRun)
}

func (f *fake) Preview(_ context.Context, r WriteRequest) (Preview, error) {
	return Preview{ID: "p1", Until: at, Nodes: map[string]NodePreview{"n1": {State: "pending"}}},
		f.note("Preview %T%+v by=%s", r.Write, r.Write, r.Caller.Name)
}

func (f *fake) PreviewResult(_ context.Context, id string) (Preview, error) {
	yes := true
	return Preview{
		ID: id, Until: at, Overrides: config.Object{"big": int64(1)<<60 + 1}, Complete: true,
		Nodes: map[string]NodePreview{"n1": {State: "answered",
			Actions: []Action{{Name: "REBOOT", Keys: []string{"a"}, Supported: &yes}}}},
	}, f.note("PreviewResult %s", id)
}

func (f *fake) Nodes(ctx context.Context) ([]Node, error) {
	if f.entered != nil {
		f.entered <- struct{}{}
		select {
		case <-f.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return []Node{{Name: "n1", State: "synced", LastReport: new(at)}, {Name: "n2"}}, f.note("Nodes")
}

func (f *fake) Node(_ context.Context, name string) (NodeDetail, error) {
	if name == "panic" {
		panic("a secret of the store")
	}
	return NodeDetail{Node: Node{Name: name}, Health: []Item{{Name: "uplink", Good: true}},
		Failures: []Failure{{MD5: "x", At: at}}}, f.note("Node %s", name)
}

func (f *fake) Command(_ context.Context, c Caller, node string, cmd Command) error {
	return f.note("Command %s %s by=%s", node, cmd, c.Name)
}

func (f *fake) Invite(_ context.Context, c Caller, node string, life time.Duration, replace bool) (Invitation, error) {
	return Invitation{Node: node, Token: "join-secret", Expires: at},
		f.note("Invite %s %s %t by=%s", node, life, replace, c.Name)
}

func (f *fake) Events(_ context.Context, q EventQuery) (Events, error) {
	e := NodeEvent{"n1", events.Event{Seq: 7, Time: at, Last: at, Kind: events.State, Object: "ni/a", Text: "x",
		Cause: events.Cause{Config: 1}, Chain: []events.Event{{Seq: 6, Time: at, Kind: events.Config, Text: "y"}}}}
	return Events{Events: []NodeEvent{e}, Silent: []string{"b"}},
		f.note("Events %s %s %s %s %d %t", q.Node, q.Object, q.Kind, q.Since.Format(time.RFC3339), q.Last, q.Why)
}

func (f *fake) Hardware(context.Context) ([]Hardware, error) {
	return []Hardware{{Board: "B1", Node: "n1", At: at, Bytes: 2}}, f.note("Hardware")
}

func (f *fake) HardwareConfig(_ context.Context, board, node string, reveal bool) (ops.DocumentAnswer, error) {
	return ops.DocumentAnswer{Object: config.Object{"base": config.Object{}}, Digest: "d4"},
		f.note("HardwareConfig %s %s %t", board, node, reveal)
}

func (f *fake) AcceptHardware(_ context.Context, c Caller, board, node, digest string) error {
	return f.note("AcceptHardware %s %s %s by=%s", board, node, digest, c.Name)
}

func (f *fake) RejectHardware(_ context.Context, c Caller, board, node string) error {
	return f.note("RejectHardware %s %s by=%s", board, node, c.Name)
}

func (f *fake) ForgetHardware(_ context.Context, c Caller, board string) error {
	return f.note("ForgetHardware %s by=%s", board, c.Name)
}

func (f *fake) PruneHistory(_ context.Context, c Caller, before time.Time, dryRun bool) (PrunedHistory, error) {
	return PrunedHistory{From: 7, Revisions: 6, Objects: 20},
		f.note("PruneHistory %s dry=%t by=%s", before.UTC().Format(time.RFC3339), dryRun, c.Name)
}

func (f *fake) StartBisect(_ context.Context, c Caller, q bisect.Request) (Bisect, error) {
	return NewBisect(&bisect.Record{Node: q.Nodes[0], Candidates: make([]bisect.Candidate, 2)}),
		f.note("StartBisect %+v by=%s", q, c.Name)
}

func (f *fake) Bisects(context.Context) ([]Bisect, error) { return nil, f.note("Bisects") }

func (f *fake) AbortBisect(_ context.Context, c Caller, node string) error {
	return f.note("AbortBisect %s by=%s", node, c.Name)
}

func (f *fake) Operators(context.Context) ([]OperatorToken, error) {
	return []OperatorToken{{Name: "ann", Role: Admin}}, f.note("Operators")
}

func (f *fake) AddOperator(_ context.Context, c Caller, t OperatorToken) (string, error) {
	return "t-secret", f.note("AddOperator %s %s %v by=%s", t.Name, t.Role, t.Expires, c.Name)
}

func (f *fake) RemoveOperator(_ context.Context, c Caller, name string) error {
	return f.note("RemoveOperator %s by=%s", name, c.Name)
}

func (f *fake) Rollouts(context.Context) ([]Rollout, error) {
	return []Rollout{{Revision: 3, Author: "ann", Began: at, State: "running", Nodes: 2, Acked: 1,
		Waiting: map[string]string{"n2": "offline"}}}, f.note("Rollouts")
}

func (f *fake) CommandRollout(_ context.Context, c Caller, revision uint64, cmd RolloutCommand) error {
	return f.note("CommandRollout %d %s by=%s", revision, cmd, c.Name)
}

func (f *fake) ExplainRollout(_ context.Context, revision uint64) (RolloutDetail, error) {
	return RolloutDetail{
		Rollout: Rollout{Revision: revision, Author: "ann", Began: at, State: "paused", Staged: true,
			Batches: []RolloutBatch{{Number: 1, Nodes: 1, Acked: 1}}},
		Next: "nothing new", Decisions: []Verdict{{At: at, By: "ann", What: "paused"}},
	}, f.note("ExplainRollout %d", revision)
}

func (f *fake) Await(_ context.Context, revision uint64) error {
	if revision > 1000 {
		return fmt.Errorf("%w: 1000 is the newest", ErrNoRevision)
	}
	if revision > 100 {
		return fmt.Errorf("%w: revision %d is not here yet", ErrBusy, revision)
	}
	return nil
}

func (f *fake) Ready(context.Context) error { return f.note("Ready") }

// asked is a request to a handler.
type asked struct {
	method, target, body, token string
	header                      map[string]string
}

// ask sends a request as a caller with JSON would.
func ask(h http.Handler, a asked) *httptest.ResponseRecorder {
	r := httptest.NewRequest(a.method, a.target, strings.NewReader(a.body))
	if a.method != "GET" && a.method != "HEAD" && a.method != "DELETE" {
		r.Header.Set("Content-Type", "application/json")
	}
	if a.token != "" {
		r.Header.Set("Authorization", "Bearer "+a.token)
	}
	for k, v := range a.header {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// problemIn decodes a problem body, which must be complete.
func problemIn(t *testing.T, w *httptest.ResponseRecorder) Problem {
	t.Helper()
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("status %d has Content-Type %q: %s", w.Code, got, w.Body)
	}
	var p Problem
	o, faults := config.ParseObject(w.Body.Bytes())
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	if faults := checkSchema(schemaOf(typeOf[Problem]()), o, nil); len(faults) > 0 {
		t.Fatal(faults)
	}
	decodeInto(t, w.Body.Bytes(), &p)
	if p.Status != w.Code || rest.Kinds[p.Type].Status != p.Status || p.Title == "" || p.Detail == "" {
		t.Fatalf("status %d with the problem %+v", w.Code, p)
	}
	return p
}
