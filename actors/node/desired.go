package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"edgespan/actors/agent"
	"edgespan/actors/node/api"
	core "edgespan/config"
	"edgespan/config/nodeconf"
	"edgespan/config/nodeconf/action"
	"edgespan/config/nodeconf/commitconfirm"
	"edgespan/config/stateloop/nodestate"
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
	document, faults := core.ReadObject(good)
	if goodErr != nil || faults != nil {
		m.log.Error("read the last good config of an earlier version", zap.Error(errors.Join(goodErr, faults)))
		return nil, err
	}
	record := m.migrated(document, nodestate.Digest(good))
	content = commitconfirm.EncodeRecord(&record)
	for _, slot := range []commitconfirm.Slot{commitconfirm.SlotConfirmed, commitconfirm.SlotCopy} {
		if err := m.Write(string(slot), content); err != nil {
			m.log.Error("migrate the last good config of an earlier version", zap.Error(err))
			return content, nil // it stays, to be read again by the next start
		}
	}
	m.log.Info("using the last good config of an earlier version as the confirmed one", zap.Uint64("gen", record.Seq))
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

// runner does the actions: what is built in by itself, the rest by commands.
type runner struct {
	d        *deps
	commands Commands
	look     func(observeAgain)
}

// Do does one step.
func (r *runner) Do(ctx context.Context, do action.Do, document core.Object) error {
	switch do.Kind {
	case action.Reconcile:
		r.look(observeAgain{})
	case action.Nameservers:
		r.d.host.RereadDNS()
		r.look(observeAgain{})
	case action.Tunnel:
		r.look(observeAgain{tunnels: true})
	case action.LogLevel:
		cfg, err := nodeconf.Parse(nodestate.OwnPart(nodeconf.Present(document)))
		if err != nil {
			return err
		}
		r.d.setLevel(cfg.Sys.LogLevel)
	case action.Unit:
		return r.commands.Run(ctx, "systemctl", do.Verb, do.Unit)
	case action.Command:
		return r.commands.Run(ctx, do.Argv...)
	case action.Unsupported, action.RestartAgent, action.Reboot:
		return fmt.Errorf("%s: not supported here", do.Kind)
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

// view is what is desired of the node, and what the owners of it say.
func (d *deps) view() nodestate.View {
	t := d.topics
	source, _ := t.Source.Get("", "node")
	v := nodestate.View{
		Ports: t.PortConfig.List(""), Networks: t.NetworkConfig.List(""), NetworkStatus: t.NetworkStatus.List(""),
		Apps: t.AppConfig.List(""), AppStatus: t.AppStatus.List(""), AppRecords: t.AppRecords.List(""),
		Tasks: t.TaskConfig.List(""), TaskStatus: t.TaskStatus.List(""), Generation: source.Generation,
	}
	v.Swept, v.SweptKnown = t.TasksSwept.Get("", "node")
	return v
}
