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

// Files reads and stores the documents of the config actor.
type Files interface {
	// ReadConfig reads the file named by --config, or an error that wraps fs.ErrNotExist. The name is "" when there is
	// none.
	ReadConfig() (data []byte, name string, err error)
	// Disk has the slots of the agent, by name.
	agent.Disk
	// SetAside renames the content of a slot that cannot be read, so that nothing overwrites it.
	SetAside(name string)
	// ReadLastGood reads the config that an earlier version stored, or returns an error that wraps fs.ErrNotExist.
	// RemoveLastGood removes it.
	ReadLastGood() ([]byte, error)
	RemoveLastGood() error
}

// Commands are what a node runs outside its process.
type Commands interface {
	// Run runs a command until ctx ends.
	Run(ctx context.Context, argv ...string) error
	// RestartAgent starts the shutdown of the process; systemd starts its successor.
	RestartAgent() error
}

// migratedDisk is the disk of a node that may have run an earlier version: the last good config of that version becomes
// the confirmed record.
type migratedDisk struct {
	Files
	record api.NodeRecord // as the earlier version counted it
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
			return content, nil // the file is kept for the next start
		}
	}
	m.log.Info("using the last good config of an earlier version as the confirmed one", zap.Uint64("gen", record.Seq))
	if err := m.RemoveLastGood(); err != nil {
		m.log.Error("remove the last good config of an earlier version", zap.Error(err))
	}
	return content, nil
}

// migrated continues the generation of the earlier version: the same number for the same config, unless that version
// crashed between storing the config and counting it.
func (m *migratedDisk) migrated(document core.Object, sum string) commitconfirm.ConfigRecord {
	r := commitconfirm.ConfigRecord{
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

// runner runs actions: built-in ones itself, all others as commands.
type runner struct {
	d        *deps
	commands Commands
	observe  func(observeAgain)
}

// Do does one step.
func (r *runner) Do(ctx context.Context, do action.Do, document core.Object) error {
	switch do.Kind {
	case action.Reconcile:
		r.observe(observeAgain{})
	case action.Nameservers:
		r.d.host.RereadDNS()
		r.observe(observeAgain{})
	case action.Tunnel:
		r.observe(observeAgain{tunnels: true})
	case action.LogLevel:
		cfg, err := nodeconf.Parse(nodestate.EdgespanPart(nodeconf.DropAbsent(document)))
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

// Restart restarts the agent or the machine.
func (r *runner) Restart(ctx context.Context, name string) error {
	if name == action.NameReboot {
		return r.commands.Run(ctx, "systemctl", "reboot")
	}
	return r.commands.RestartAgent()
}

// view combines the desired state of the node with the statuses that the owners publish.
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
