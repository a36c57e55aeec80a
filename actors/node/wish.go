package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"edgespan/actors/agent"
	"edgespan/actors/node/api"
	"edgespan/appnet"
	core "edgespan/config"
	"edgespan/config/nodeconf"
	"edgespan/config/nodeconf/action"
	"edgespan/config/nodeconf/commitconfirm"
	"edgespan/config/stateloop"
	"edgespan/netinst"
)

// Files is where the config actor keeps and finds documents.
type Files interface {
	// ReadConfig reads the file named by --config, or an error that wraps
	// fs.ErrNotExist. The name is "" when there is none.
	ReadConfig() (data []byte, name string, err error)
	// The slots of the agent, by name.
	agent.Disk
	// SetAside keeps what stands in a slot that can't be read, before anything takes its place.
	SetAside(name string)
	// ReadLastGood reads the config that an earlier version kept, or an error that wraps
	// fs.ErrNotExist; RemoveLastGood takes it away.
	ReadLastGood() ([]byte, error)
	RemoveLastGood() error
}

// Commands are what a node has others do.
type Commands interface {
	// Run runs a command until ctx ends.
	Run(ctx context.Context, argv ...string) error
	// RestartAgent begins the end of the process and the start of its successor.
	RestartAgent() error
}

// migratedDisk is the disk of a node, which may be of an earlier version's: what that kept
// as last good config is the confirmed record.
type migratedDisk struct {
	Files
	record api.NodeRecord // as that version counted it
	log    *zap.Logger
}

// Read reads a slot.
func (m *migratedDisk) Read(name string) ([]byte, error) {
	content, err := m.Files.Read(name)
	if name != string(commitconfirm.SlotConfirmed) || !errors.Is(err, fs.ErrNotExist) {
		return content, err
	}
	good, goodErr := m.ReadLastGood()
	if errors.Is(goodErr, fs.ErrNotExist) {
		return nil, err
	}
	document, faults := nodeconf.Document(good)
	if goodErr != nil || faults != nil {
		m.log.Error("read the last good config of an earlier version", zap.Error(errors.Join(goodErr, faults)))
		return nil, err
	}
	record := m.migrated(document, digest(good))
	content = commitconfirm.EncodeRecord(&record)
	for _, slot := range []commitconfirm.Slot{commitconfirm.SlotConfirmed, commitconfirm.SlotCopy} {
		if err := m.Write(string(slot), content); err != nil {
			m.log.Error("migrate the last good config of an earlier version", zap.Error(err))
			return content, nil // it stays, to be read again by the next start
		}
	}
	m.log.Info("the last good config of an earlier version is the confirmed one", zap.Uint64("gen", record.Seq))
	if err := m.RemoveLastGood(); err != nil {
		m.log.Error("remove the last good config of an earlier version", zap.Error(err))
	}
	return content, nil
}

// migrated counts a config on from what the earlier version counted: the same number where
// it is the same config, unless that died between storing it and counting it.
func (m *migratedDisk) migrated(document core.Object, sum string) commitconfirm.Record {
	r := commitconfirm.Record{
		Seq: m.record.Generation, Authority: uuid.NewString(), Source: commitconfirm.Source(m.record.Source),
		FileDigest: m.record.FileDigest, Document: document,
	}
	if m.record.DocDigest != sum {
		r.Seq++
	}
	r.Seq = max(r.Seq, 1)
	if r.Source != commitconfirm.File {
		r.Source = commitconfirm.Apply
	}
	r.Generation = commitconfirm.Generation{Authority: r.Authority, Counter: r.Seq}
	return r
}

// ownPart is what of a document is for this node's own hands: other vendors' keys beside it
// are left out.
func ownPart(document core.Object) core.Object {
	out := core.Object{}
	for _, key := range nodeconf.Sections() {
		if v, has := document[key]; has {
			out[key] = v
		}
	}
	for _, e := range nodeconf.Schema() {
		group, name, below := strings.Cut(e.Path, ".")
		if !below || strings.Contains(name, ".") || slices.Contains(nodeconf.Sections(), group) {
			continue
		}
		if v, has := core.Lookup(document, []string{group, name}); has {
			mine, _ := out[group].(core.Object)
			if mine == nil {
				mine = core.Object{}
			}
			mine[name] = v
			out[group] = mine
		}
	}
	return out
}

// runner does the actions: what is built in by itself, the rest by commands.
type runner struct {
	d        *deps
	commands Commands
	look     func(lookAgain)
}

// Do does one step.
func (r *runner) Do(ctx context.Context, do action.Do, document core.Object) error {
	switch do.Kind {
	case action.Reconcile:
		r.look(lookAgain{})
	case action.Nameservers:
		r.d.host.RereadDNS()
		r.look(lookAgain{})
	case action.Tunnel:
		r.look(lookAgain{tunnels: true})
	case action.LogLevel:
		cfg, err := nodeconf.Parse(core.AppendCanonical(nil, ownPart(nodeconf.Present(document))))
		if err != nil {
			return err
		}
		r.d.setLevel(cfg.Sys.LogLevel)
	case action.Unit:
		return r.commands.Run(ctx, "systemctl", do.Verb, do.Unit)
	case action.Command:
		return r.commands.Run(ctx, do.Argv...)
	case action.Unsupported, action.RestartAgent, action.Reboot:
		return fmt.Errorf("%s is not done here", do.Kind)
	}
	return nil
}

// Restart ends the agent or the machine.
func (r *runner) Restart(ctx context.Context, name string) error {
	if name == action.NameReboot {
		return r.commands.Run(ctx, "systemctl", "reboot")
	}
	return r.commands.RestartAgent()
}

// answered says whether every network and adapter that is wanted has answered its newest
// config.
func (d *deps) answered() bool {
	t := d.topics
	ports := slices.Collect(maps.Values(t.PortConfig.List("")))
	statuses := t.NetworkStatus.List("")
	for id, c := range t.NetworkConfig.List("") {
		s, seen := statuses[id]
		if !seen || s.Generation != c.Generation || s.PortsMeant != netinst.PortsMeant(c, ports) {
			return false
		}
	}
	if !d.tasksAnswered() {
		return false
	}
	wishes := t.AppConfig.List("")
	for id := range wishes {
		s, seen := t.AppStatus.Get("", id)
		rec, _ := t.AppRecords.Get("", id)
		if !seen || s.TargetVersion != rec.TargetVersion || !spoken(s) {
			return false
		}
	}
	for id, c := range wishes { // last: it spells the whole config
		if rec, _ := t.AppRecords.Get("", id); rec.Digest != appnet.Digest(c) {
			return false
		}
	}
	return true
}

// tasksAnswered says whether every executor and check has answered, and what is to be absent
// is, or was tried.
func (d *deps) tasksAnswered() bool {
	t := d.topics
	source, _ := t.Source.Get("", "node")
	if swept, said := t.TasksSwept.Get("", "node"); !said || swept != source.Generation {
		return false
	}
	for id, c := range t.TaskConfig.List("") {
		s, seen := t.TaskStatus.Get("", id)
		if !seen || s.Version != c.Generation || s.State == stateloop.Creating && s.Reason == "" {
			return false
		}
	}
	return true
}

// spoken says whether all adapters of an app have answered: one that says why it can't be, as
// that its namespace is not there yet, has answered too. Who waited for the world would
// confirm no config with an app that starts after it.
func spoken(s appnet.AppNetworkStatus) bool {
	return !s.Pending || len(s.Adapters) > 0 && !slices.ContainsFunc(s.Adapters, func(a appnet.AdapterStatus) bool {
		return a.TargetVersion != s.TargetVersion || !a.Activated && a.Error == ""
	})
}
