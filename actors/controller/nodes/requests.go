package nodes

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
)

type (
	// request is a request that the node has not answered.
	request struct {
		kind    string
		board   string // of RequestBaseConfig
		preview string // of RequestPreview: the preview's id
		events  uint64 // of RequestEvents: the number that the node reported
		at      time.Time
	}
	// Command is an operator's command.
	Command struct {
		By   fleetapi.Caller
		What fleetapi.Command
	}
	// CommandDone is its result.
	CommandDone struct{ Err error }
	// RequestRunning asks for what a node runs in addition to its desired config.
	RequestRunning struct{}
	// Running is its answer: the objects that the desired config would remove.
	Running struct {
		Document config.Object
		Removes  []string
		Err      error
	}
	// Describe asks for everything known of a node; the answer is a fleetapi.NodeDetail.
	Describe struct{}
	// PreviewRequest asks a node which actions a document entails.
	PreviewRequest struct {
		ID       string
		Document []byte
		Lease    kv.LeaseID
	}
)

// maxAsks bounds the open requests to a node: older ones are dropped.
const maxAsks = 16

// questions are the requests to the node.
type questions struct {
	asks     map[uint64]request
	asking   uint64                // the last request for its running config
	ran      []byte                // its running config as it answered, until it is adopted
	compare  *fleet.Compare        // waits for the node's answer
	misfit   time.Time             // when its last answer differed from the reported config
	misfits  int                   // how many successive answers differed
	previews map[string]kv.LeaseID // requested previews, by id
}

// request sends the node a request and returns its number.
func (n *node) request(a request, data []byte) uint64 {
	if n.asks == nil {
		n.asks = map[uint64]request{}
	}
	id := n.handle.asks.Add(1)
	n.asks[id] = a
	for old := range n.asks {
		if old+maxAsks < id {
			delete(n.asks, old)
		}
	}
	n.send(nodeproto.Request{ID: id, Kind: a.kind, Data: data})
	return id
}

// handleAsked requests the node's base config if the fleet permits it.
func (n *node) handleAsked(m fleet.Asked) {
	if m.Granted && n.report != nil {
		n.request(request{kind: nodeproto.RequestBaseConfig, board: n.report.Board}, nil)
	}
	n.step(m)
}

// handleAnswer handles the answer to a request; unrequested answers are dropped.
func (n *node) handleAnswer(w nodeproto.Answer) {
	a, open := n.asks[w.ID]
	if !open {
		return
	}
	delete(n.asks, w.ID)
	switch a.kind {
	case nodeproto.RequestBaseConfig:
		if w.Error == "" {
			n.d.Notify(Learnt{n.id, a.board, w.Data})
		}
	case nodeproto.RequestConfig:
		if w.Error == "" {
			n.storeRunning(w.Data)
			n.handleCompared(w.Data)
		}
	case nodeproto.RequestPreview:
		n.handlePreviewAnswer(a.preview, w)
	case nodeproto.RequestEvents:
		n.handle.putEvents(n.d.Now(), w.Data, a.events)
	}
}

// handleOperatorMessage handles requests of operators.
func (n *node) handleOperatorMessage(m any) {
	switch m := m.(type) {
	case storage.Question:
		switch q := m.Question.(type) {
		case Command:
			n.command(m.Reply, q)
		case RequestRunning:
			m.Reply(n.runningConfig())
		case Describe:
			m.Reply(n.describe())
		}
	case PreviewRequest:
		if n.stream != nil {
			if n.previews == nil {
				n.previews = map[string]kv.LeaseID{}
			}
			n.previews[m.ID] = m.Lease
			n.request(request{kind: nodeproto.RequestPreview, preview: m.ID, at: n.d.Now()}, m.Document)
		}
	}
}

// command runs an operator's command, or refuses it.
func (n *node) command(reply func(any), c Command) {
	if why := n.machine.UnreadReason(); why != "" && c.What != fleetapi.Confirm {
		reply(CommandDone{fmt.Errorf("%s: %w: cannot read the stored state of its pushes: %s: use a controller of the "+
			"version that wrote it; if it is damaged, run 'edgespan nodes replace NAME' to join the node again, which keeps "+
			"what is readable", c.What,
			fleetapi.ErrRefused, why)})
		return
	}
	switch c.What {
	case fleetapi.Retry:
		n.step(fleet.Retry{})
	case fleetapi.Release:
		n.step(fleet.ReleaseAsked{By: c.By.Name})
	case fleetapi.AdoptReplace:
		n.step(fleet.AdoptionDecided{Replace: true})
	case fleetapi.AdoptImport:
		n.step(fleet.AdoptionDecided{})
	case fleetapi.Confirm:
		reply(CommandDone{n.confirm()})
		return
	case fleetapi.Renew:
		reply(CommandDone{n.renew()})
		return
	default:
		reply(CommandDone{fmt.Errorf("command %q: %w: unknown command", c.What, fleetapi.ErrRefused)})
		return
	}
	reply(CommandDone{})
}

// confirm confirms the node's pending config by hand.
func (n *node) confirm() error {
	switch {
	case n.stream == nil:
		return fmt.Errorf("confirm: %w: node offline: try again when it is connected", fleetapi.ErrRefused)
	case n.report == nil || n.report.Pending == nil:
		return fmt.Errorf("confirm: %w: no config waits for confirmation", fleetapi.ErrRefused)
	}
	n.d.Work.Confirmed()
	return n.stream.Send(nodeproto.Confirm{Generation: n.report.Pending.Generation})
}

// renew makes the node renew its certificate now. For an offline node nothing is queued: it renews by itself when it
// reconnects, if it is due.
func (n *node) renew() error {
	if n.stream == nil {
		return fmt.Errorf("renew: %w: node offline: try again when it is connected", fleetapi.ErrRefused)
	}
	return n.stream.Send(nodeproto.Renew{})
}

// runningConfigs bounds the running configs that nodes waiting for adoption have sent.
type runningConfigs struct {
	one  sync.Mutex // held while one is read
	kept atomic.Int64
}

// maxAnswers bounds the bytes of the kept answers of all nodes: 10 KB for a usual node, up to 8 MB for a hostile one.
const maxAnswers = 128 << 20

// storeRunning keeps the node's running config if there is room; nil drops it.
func (n *node) storeRunning(data []byte) {
	n.d.running.kept.Add(-int64(len(n.ran)))
	n.ran = nil
	if n.d.running.kept.Add(int64(len(data))) > maxAnswers {
		n.d.running.kept.Add(-int64(len(data)))
		return
	}
	n.ran = data
}

// runningConfig returns what the node runs and the desired config would remove.
func (n *node) runningConfig() Running {
	if n.machine.State(n.d.Now()) != fleet.NeedsAdoption {
		return Running{Err: fmt.Errorf("adopt: %w: the node does not need adoption", fleetapi.ErrRefused)}
	}
	if n.ran == nil {
		return Running{Err: fmt.Errorf("adopt: %w: the node's current config is unknown: it is offline, or too many others "+
			"wait for adoption: adopt or forget those first", fleetapi.ErrRefused)}
	}
	n.d.running.one.Lock()
	defer n.d.running.one.Unlock()
	o, faults := config.ParseBounded(n.ran)
	if len(faults) > 0 {
		return Running{Err: faults}
	}
	effective, clashes := n.desired.Set.Effective()
	if clashes != nil {
		return Running{Err: clashes}
	}
	return Running{Document: o, Removes: fleet.RemovedObjects(o, effective)}
}

// describe returns everything known of the node.
func (n *node) describe() fleetapi.NodeDetail {
	now := n.d.Now()
	d := fleetapi.NodeDetail{
		Node: n.handle.List(now, n.d.Settings()), Explain: n.machine.Explain(now), Replica: n.replica,
		Health: []fleetapi.Item{}, Parameters: []fleetapi.Parameter{}, Actions: []fleetapi.Done{},
		Failures: []fleetapi.Failure{},
	}
	for _, f := range n.machine.Memory().Failures {
		d.Failures = append(d.Failures,
			fleetapi.Failure{MD5: f.Digest.Config, Reason: string(f.Reason), Why: f.Why, At: f.At})
	}
	if t := n.theirs; t != nil && t.Peer != nil {
		d.Parameters = parametersOf(t.Peer.Report)
		for _, h := range t.Peer.Report.Items {
			d.Health = append(d.Health, fleetapi.Item{Name: h.Name, Good: h.Good, Detail: h.Detail})
		}
	} else if t != nil && t.Parameters != nil {
		d.Parameters = t.Parameters
	}
	if t := n.theirs; t != nil && t.Left > 0 {
		d.Explain = append(d.Explain,
			fmt.Sprintf("%d more parameters and health items omitted: replica %s, which has its stream, shows all",
				t.Left, n.replica))
	}
	r := n.report
	if r == nil || n.theirs != nil {
		return d
	}
	d.Source, d.Fallback = r.Source, r.Fallback
	if r.Held != nil {
		d.Held = fmt.Sprintf("held locally by %s since %s", r.Held.By, r.Held.Since.UTC().Format(time.RFC3339))
	}
	if p := r.Pending; p != nil {
		heard := time.Unix(0, n.handle.heard.Load())
		d.Pending = fmt.Sprintf("%s, %.0f s left", p.Generation, max(0, p.Remaining-now.Sub(heard)).Seconds())
	}
	for _, h := range r.Health {
		d.Health = append(d.Health, fleetapi.Item{Name: h.Name, Good: h.Good, Detail: h.Detail})
	}
	d.Parameters = n.parameters()
	for _, a := range r.Actions {
		d.Actions = append(d.Actions, fleetapi.Done{Name: a.Name, State: a.State, Detail: a.Detail})
	}
	return d
}

// States of a node that has answered a preview.
const (
	previewAnswered = "answered"
	previewFailed   = "failed"
)

// handlePreviewAnswer stores the node's answer to a preview, for all replicas.
func (n *node) handlePreviewAnswer(id string, w nodeproto.Answer) {
	lease, ok := n.previews[id]
	if !ok {
		return
	}
	delete(n.previews, id)
	out := fleetapi.NodePreview{State: previewAnswered, Actions: []fleetapi.Action{}}
	if err := readPreview(w, &out); err != nil {
		out.State, out.Why = previewFailed, err.Error()
	}
	n.d.Saver.Add(storage.Save{Op: kv.PutLeased(history.PreviewKey(id, n.id), storage.Encode(out), lease)})
}

func readPreview(w nodeproto.Answer, out *fleetapi.NodePreview) error {
	if w.Error != "" {
		return errors.New(w.Error)
	}
	var p nodeproto.PreviewAnswer
	if err := json.Unmarshal(w.Data, &p); err != nil {
		return fmt.Errorf("invalid answer: %w", err)
	}
	for _, a := range p.Actions {
		supported := a.Supported
		out.Actions = append(out.Actions, fleetapi.Action{Name: a.Name, Keys: slices.Clone(a.Keys), Supported: &supported})
	}
	return nil
}
