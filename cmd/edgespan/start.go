package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"edgespan/actors"
	"edgespan/netinst/netstate"
	"edgespan/platform/daemon"
	"edgespan/platform/facts"
	"edgespan/platform/host"
	"edgespan/platform/store"
)

// node is a started node with what it was put together from.
type node struct {
	*actors.Node
	host    *host.Host
	journal *store.Journal
	notify  func(string)
}

// backendDeadline bounds the question which iptables the host has: an answer is for
// the log only.
const backendDeadline = 500 * time.Millisecond

// startNode wires platform and actors.
func startNode(ctx context.Context, o nodeOptions, log *zap.Logger) (runningNode, error) {
	journal, err := store.OpenJournal(o.StateDir)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	n := &node{journal: journal, notify: daemon.Notifier(os.Getenv("NOTIFY_SOCKET"))}
	boot, err := store.NextBoot(journal)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("count the boot: %w", err), n.close())
	}
	if n.host, err = host.New(host.Config{RunDir: o.RunDir, Log: log}); err != nil {
		return nil, errors.Join(fmt.Errorf("open host: %w", err), n.close())
	}
	id, err := store.NodeID(o.StateDir)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("know the node's id: %w", err), n.close())
	}
	// A host without iptables still starts: its networks say what they lack.
	ask, cancel := context.WithTimeout(ctx, backendDeadline)
	backend, err := n.host.Backend(ask)
	cancel()
	log.Info("host", zap.String("node", id.String()), zap.Uint64("boot", boot), zap.Stringer("iptables", backend), zap.Error(err),
		zap.Int64("journal_torn", journal.Stats().Torn))
	n.Node, err = actors.Start(actors.Options{
		Host: n.host, Journal: journal, Files: daemon.Files{Config: o.Config, StateDir: o.StateDir},
		Facts:  facts.Reader{Root: "/", RunDir: o.RunDir, Iptables: n.iptables},
		RunDir: o.RunDir, Boot: boot, Log: log, Notify: n.notify, SetLevel: setLevel(o.Level),
	})
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	n.notify("READY=1")
	return n, nil
}

// iptables is what the host says of its iptables, for the doctor.
func (n *node) iptables(ctx context.Context) netstate.Iptables {
	b, err := n.host.Backend(ctx)
	if err != nil {
		return netstate.Iptables{Fault: err.Error()}
	}
	return netstate.Iptables{Version: b.Version, Mode: b.Mode, Wait: b.Wait, RandomFully: b.RandomFully}
}

// Stop ends the actors, then what they stand on.
func (n *node) Stop(ctx context.Context) error {
	n.notify("STOPPING=1")
	return errors.Join(n.Node.Stop(ctx), n.close())
}

func (n *node) close() error {
	var err error
	if n.host != nil {
		err = n.host.Close()
	}
	return errors.Join(err, n.journal.Close())
}

// setLevel sets a log's least level by the config's word for it.
func setLevel(l zap.AtomicLevel) func(string) {
	return func(word string) {
		if to, err := zapcore.ParseLevel(word); err == nil { // the config allows no other word
			l.SetLevel(to)
		}
	}
}
