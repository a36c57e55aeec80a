package clitest

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"edgespan/config"
	"edgespan/config/events"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/layers"
)

// FleetBackend is a controller without nodes. It returns the answers that the test sets, small constant ones by
// default, and records the requests.
type FleetBackend struct {
	Mu    sync.Mutex
	asked []string
	Err   error // of every request but authentication

	Role        fleetapi.Role // of a caller with a token
	Doc         ops.DocumentAnswer
	Meta        config.Object
	Written     fleetapi.Written
	NodeList    []fleetapi.Node
	Detail      fleetapi.NodeDetail
	Previews    []fleetapi.Preview // returned one after the other; the last repeats
	Explains    []history.ValueHistory
	Editions    []fleetapi.Edition
	Diffs       []history.LayerDiff
	RolloutList []fleetapi.Rollout

	BackupText  string
	ArchiveText string
	ShellText   string // frames

	RolloutNext string
	Decisions   []fleetapi.Verdict
	Tokens      []fleetapi.OperatorToken
	Invited     fleetapi.Invitation
	OnWrite     func(ops.Write) // may be nil

	Searches []fleetapi.Bisect // the first is the one that StartBisect begins; each Bisects takes it a step further

	PeerList    []fleetapi.PeerDetail
	ClusterList []fleetapi.ClusterDetail
	Changes     chan func(*FleetBackend) // each runs while Mu is held
}

func (f *FleetBackend) note(format string, args ...any) error {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.asked = append(f.asked, fmt.Sprintf(format, args...))
	return f.Err
}

// TakeRequests returns the requests since the last call.
func (f *FleetBackend) TakeRequests() []string {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	out := f.asked
	f.asked = nil
	return out
}

func (f *FleetBackend) Authenticate(_ context.Context, hash string) (fleetapi.Caller, error) {
	if hash != "hash of secret" {
		return fleetapi.Caller{}, fleetapi.ErrNoToken
	}
	return fleetapi.Caller{Name: "alice", Role: f.Role}, nil
}

func (f *FleetBackend) Config(_ context.Context, q ops.ConfigQuery) (ops.DocumentAnswer, error) {
	return f.Doc, f.note("config %+v", q)
}

func (f *FleetBackend) Paths(_ context.Context, q ops.PathsQuery) (ops.DocumentAnswer, error) {
	return f.Doc, f.note("paths %+v", q)
}

func (f *FleetBackend) Layer(_ context.Context, q ops.LayerQuery) (ops.DocumentAnswer, error) {
	return f.Doc, f.note("layer %+v", q)
}

func (f *FleetBackend) Metadata(_ context.Context, of string) (ops.DocumentAnswer, error) {
	return ops.DocumentAnswer{Object: f.Meta}, f.note("metadata %s", of)
}

func (f *FleetBackend) E2E(_ context.Context, file string, reveal bool) (ops.DocumentAnswer, error) {
	return f.Doc, f.note("e2e %s reveal %v", file, reveal)
}

func (f *FleetBackend) Export(context.Context, bool) (history.Files, uint64, error) {
	return history.Files{}, 0, f.note("export")
}

func (f *FleetBackend) Backup(context.Context, string) (func(context.Context, io.Writer) error, error) {
	return func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, f.BackupText)
		return err
	}, f.note("backup")
}

// Support sends ArchiveText as the archive of any node.
func (f *FleetBackend) Shell(_ context.Context, node string, q nodeproto.ShellRequest) (fleetapi.Archive, error) {
	return fleetapi.Archive{Close: func() {}, Write: func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, f.ShellText)
		return err
	}}, f.note("shell %s %+v", node, q)
}

func (f *FleetBackend) Support(_ context.Context, node string, q nodeproto.SupportRequest) (fleetapi.Archive, error) {
	return fleetapi.Archive{Close: func() {}, Write: func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, f.ArchiveText)
		return err
	}}, f.note("support %s %+v", node, q)
}

func (f *FleetBackend) Topology(context.Context) (ops.DocumentAnswer, error) {
	return f.Doc, f.note("topology")
}

func (f *FleetBackend) Explain(_ context.Context, node string, path []string) ([]history.ValueHistory, error) {
	return f.Explains, f.note("explain %s %s", node, config.FormatPath(path))
}

func (f *FleetBackend) History(_ context.Context, q fleetapi.HistoryQuery) ([]fleetapi.Edition, error) {
	layer := "all"
	if q.Layer != nil {
		layer = q.Layer.String()
	}
	return f.Editions, f.note("history %s before %d limit %d", layer, q.Before, q.Limit)
}

func (f *FleetBackend) Diff(_ context.Context, from, to uint64) ([]history.LayerDiff, error) {
	return f.Diffs, f.note("diff %d %d", from, to)
}

func (f *FleetBackend) Write(_ context.Context, r fleetapi.WriteRequest) (fleetapi.Written, error) {
	if f.OnWrite != nil {
		f.OnWrite(r.Write)
	}
	w := f.Written
	w.DryRun, w.Message = r.DryRun, r.Message
	return w, f.note("write %T%+v message %q dry %v if %v", r.Write, r.Write, r.Message, r.DryRun, r.IfMatch)
}

func (f *FleetBackend) Preview(_ context.Context, r fleetapi.WriteRequest) (fleetapi.Preview, error) {
	return f.nextPreview(), f.note("preview %T%+v", r.Write, r.Write)
}

func (f *FleetBackend) PreviewResult(_ context.Context, id string) (fleetapi.Preview, error) {
	return f.nextPreview(), f.note("result %s", id)
}

func (f *FleetBackend) nextPreview() fleetapi.Preview {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	p := f.Previews[0]
	if len(f.Previews) > 1 {
		f.Previews = f.Previews[1:]
	}
	return p
}

func (f *FleetBackend) Nodes(context.Context) ([]fleetapi.Node, error) {
	return f.NodeList, f.note("nodes")
}

func (f *FleetBackend) Node(_ context.Context, name string) (fleetapi.NodeDetail, error) {
	if err := f.note("node %s", name); err != nil {
		return fleetapi.NodeDetail{}, err
	}
	if name != f.Detail.Name {
		return fleetapi.NodeDetail{}, &ops.NotFoundError{What: "node " + name}
	}
	return f.Detail, nil
}

func (f *FleetBackend) Command(_ context.Context, _ fleetapi.Caller, node string, cmd fleetapi.Command) error {
	return f.note("command %s %s", cmd, node)
}

func (f *FleetBackend) Invite(_ context.Context, _ fleetapi.Caller, node string, life time.Duration,
	replace bool) (fleetapi.Invitation, error) {
	return f.Invited, f.note("invite %s %s replace %v", node, life, replace)
}

func (f *FleetBackend) Known(string) (fleetapi.Caller, bool) { return fleetapi.Caller{}, false }

// Events answers with an event that would clear a terminal, and a replica that is silent.
func (f *FleetBackend) Events(_ context.Context, q fleetapi.EventQuery) (fleetapi.Events, error) {
	e := events.Event{Seq: 9, Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Kind: events.Failed, Object: "ni/a",
		Name: "blue", Text: "add link es1 failed", Error: "busy\x1b[2J", Cause: events.Cause{Apply: "1.2.3"}}
	return fleetapi.Events{Events: []fleetapi.NodeEvent{{Node: "pop-1", Event: e}}, Silent: []string{"b"}},
		f.note("events %q %q %q %d %t", q.Node, q.Object, q.Kind, q.Last, q.Why)
}

func (f *FleetBackend) Hardware(context.Context) ([]fleetapi.Hardware, error) {
	return []fleetapi.Hardware{{Board: "B9", Node: "pop-1", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Digest: "5d41402a", Bytes: 12, Base: []string{"V1"}, Metadata: 2}}, f.note("hardware")
}

func (f *FleetBackend) HardwareConfig(_ context.Context, board, node string, reveal bool) (ops.DocumentAnswer, error) {
	return ops.DocumentAnswer{Object: config.Object{"base": config.Object{"V1": config.Object{}}}, Digest: "5d41402a"},
		f.note("hardware config %s %s %t", board, node, reveal)
}

func (f *FleetBackend) AcceptHardware(_ context.Context, _ fleetapi.Caller, board, node, digest string) error {
	return f.note("accept hardware %s %s %s", board, node, digest)
}

func (f *FleetBackend) RejectHardware(_ context.Context, _ fleetapi.Caller, board, node string) error {
	return f.note("reject hardware %s %s", board, node)
}

func (f *FleetBackend) PruneHistory(_ context.Context, _ fleetapi.Caller, before time.Time,
	dryRun bool) (fleetapi.PrunedHistory, error) {
	f.note("prune %s %t", before.UTC().Format(time.RFC3339), dryRun)
	return fleetapi.PrunedHistory{From: 41, Revisions: 40, Objects: 120, DryRun: dryRun}, nil
}

func (f *FleetBackend) ForgetHardware(_ context.Context, _ fleetapi.Caller, board string) error {
	return f.note("forget hardware %s", board)
}

func (f *FleetBackend) Operators(context.Context) ([]fleetapi.OperatorToken, error) {
	return f.Tokens, f.note("operators")
}

func (f *FleetBackend) AddOperator(_ context.Context, _ fleetapi.Caller, t fleetapi.OperatorToken) (string, error) {
	return "opaque-token", f.note("add operator %s %s expires %v", t.Name, t.Role, t.Expires != nil)
}

func (f *FleetBackend) RemoveOperator(_ context.Context, _ fleetapi.Caller, name string) error {
	return f.note("remove operator %s", name)
}

func (f *FleetBackend) Rollouts(context.Context) ([]fleetapi.Rollout, error) {
	return f.RolloutList, f.note("rollouts")
}

func (f *FleetBackend) CommandRollout(_ context.Context, _ fleetapi.Caller, revision uint64,
	cmd fleetapi.RolloutCommand) error {
	return f.note("rollout %d %s", revision, cmd)
}

func (f *FleetBackend) ExplainRollout(_ context.Context, revision uint64) (fleetapi.RolloutDetail, error) {
	return fleetapi.RolloutDetail{Rollout: f.RolloutList[0], Next: f.RolloutNext, Decisions: f.Decisions},
		f.note("explain rollout %d", revision)
}

func (f *FleetBackend) Await(context.Context, uint64) error { return nil }

func (f *FleetBackend) Ready(context.Context) error { return f.note("ready") }

var _ fleetapi.Backend = (*FleetBackend)(nil)

// goodNode returns a node that runs its desired config.
func goodNode(at time.Time) fleetapi.Node {
	return fleetapi.Node{
		Name: "pop-1", ID: "10000000-0000-4000-8000-000000000001", State: "InSync", Why: "runs the desired config",
		Online: true,
		Ready:  true, Managed: true,
		Software: "RELEASE_M81", Firmware: "10.11.0.90", Board: "MVL_ARMADA",
		Desired: fleetapi.Running{MD5: "aa", Generation: "a:7"}, Running: fleetapi.Running{MD5: "aa", Generation: "a:7"},
		LastReport: &at,
	}
}

// SmallFleet returns a controller of two nodes, one of them degraded.
func SmallFleet() *FleetBackend {
	at := time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)
	pop := goodNode(at)
	yes, no := true, false
	peers, clusters := smallPeers()
	return &FleetBackend{
		Role:        fleetapi.Admin,
		PeerList:    peers,
		ClusterList: clusters,
		Changes:     make(chan func(*FleetBackend)),
		Doc: ops.DocumentAnswer{Object: config.Object{"sysParams": config.Object{"managedConfig": true}},
			Revision: 12},
		Meta: testMetadata(),
		NodeList: []fleetapi.Node{{Name: "dn-2", State: "RolledBack", Why: "undone: unhealthy",
			Desired: fleetapi.Running{Generation: "a:7"}}, pop},
		Detail: fleetapi.NodeDetail{
			Node: pop, Explain: []string{"it runs a:7 since 13:00"}, Source: "controller", Replica: "one",
			Health: []fleetapi.Item{{Name: "uplink", Good: true}, {Name: "ni/x", Detail: "no route"}},
			Parameters: []fleetapi.Parameter{{ID: "ni/x", Kind: "network", Target: "present", State: "CreatingFailed",
				Review: "yes", Reason: "no route"}},
			Actions:  []fleetapi.Done{{Name: "UPDATE_FIREWALL", State: "done"}},
			Failures: []fleetapi.Failure{{MD5: "bb", Reason: "unhealthy", Why: "uplink went bad", At: at}},
		},
		Written: exampleWrite(),
		Previews: []fleetapi.Preview{{ID: "p1", Until: at.Add(time.Minute), Complete: true,
			Nodes: map[string]fleetapi.NodePreview{
				"pop-1": {State: "answered", Actions: []fleetapi.Action{{Name: "UPDATE_FIREWALL", Supported: &yes},
					{Name: "RESTART_KEA", Supported: &no}}},
			}}},
		Explains: []history.ValueHistory{{
			ValueOrigin: layers.ValueOrigin{Path: []string{"sysParams", "managedConfig"}, Value: true, Origin: layers.Network},
			By:          &history.RevisionRecord{Number: 12, Author: "alice", Time: at, Message: "as agreed"},
			Shadowed:    smallShadow(),
		}},
		Editions: []fleetapi.Edition{
			{Number: 13, Author: "alice", Time: at, Message: "more", Layers: []string{"network"}},
			{Number: 12, Author: "bob", Time: at, Layers: []string{"node/a", "node/b", "node/c", "node/d"}},
		},
		Diffs: []history.LayerDiff{{
			Layer: history.Layer{Kind: history.Network}, Before: history.Version{Revision: 12},
			After:  history.Version{Revision: 13},
			Values: []history.ValueDiff{{Path: []string{"sysParams", "managedConfig"}, New: true, HasNew: true}},
		}},
		RolloutList: []fleetapi.Rollout{{
			Revision: 13, Author: "alice", Began: at, State: "running", Nodes: 3, Acked: 1,
			Failed: map[string]string{"dn-2": "unhealthy"}, Waiting: map[string]string{"dn-3": "it is offline"},
			Staged: true, Batches: []fleetapi.RolloutBatch{{Number: 1, Nodes: 1, Acked: 1}, {Number: 2, Nodes: 1, Failed: 1}},
		}},
		RolloutNext: "nothing new, until it is resumed, aborted or reverted, or another change comes",
		Decisions: []fleetapi.Verdict{
			{At: at, By: "alice", What: "revision 13 begins"},
			{At: at.Add(time.Second), What: "batch 1 goes out to pop-1", Why: "it is the first"},
			{At: at.Add(time.Minute), What: "halted", Why: "1 nodes failed, dn-2 the last of them: unhealthy: 0 may"},
		},
		Tokens: []fleetapi.OperatorToken{{Name: "alice", Role: fleetapi.Admin},
			{Name: "bob", Role: fleetapi.Viewer, Expires: &at}},
		Invited: fleetapi.Invitation{Node: "dn-3", Token: "t", Expires: at,
			Command: "edgespan join --controller c:8444 --token t --ca-sha256 aa --name dn-3"},
	}
}

// testMetadata describes two parameters: a text that looks like a number, and a number.
func testMetadata() config.Object {
	entry := func(kind string) config.Object {
		return config.Object{"desc": "d", "type": kind, "action": "NO_ACTION"}
	}
	return config.Object{"label": entry("STRING"), "count": entry("INTEGER"), "flags": config.Object{
		"desc": "d", "type": "MAP", "action": "NO_ACTION", "mapVal": config.Object{"type": "STRING"},
	}}
}

// ServeFleet serves the controller and returns the environment of a command that asks it.
func ServeFleet(t *testing.T, f fleetapi.Backend) map[string]string {
	t.Helper()
	hash := func(text string) (string, error) { return "hash of " + text, nil }
	s := httptest.NewServer(fleetapi.Handler(f, fleetapi.WithTokens(hash)))
	t.Cleanup(s.Close)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"EDGESPAN_CONTROLLER": s.URL, "EDGESPAN_TOKEN_FILE": token, "HOME": t.TempDir()}
}

// exampleWrite returns the result of a write that changes both nodes.
func exampleWrite() fleetapi.Written {
	return fleetapi.Written{
		Revision: 13, Changed: true, Warnings: []string{"a warning"}, Unknown: []string{"mine"},
		Effects: []fleetapi.Effect{{
			Nodes: []string{"dn-2", "pop-1"},
			Values: []fleetapi.Value{{Path: "sysParams.managedConfig", Old: false, HadOld: true, New: true, HasNew: true,
				Origin: "network"}},
			Actions: []fleetapi.Action{{Name: "RESTART_MINION", Keys: []string{"sysParams"}}},
		}},
	}
}

func smallShadow() []history.ShadowedBy {
	return []history.ShadowedBy{{ShadowedValue: layers.ShadowedValue{
		Layer: layers.Base, Path: []string{"sysParams", "managedConfig"}, Value: false}}}
}
