package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
)

const (
	oldKeys = `{"radioParamsBase":{"wsecParams":{"eapolParams":{"a":"x"}}}}`
	newKeys = `{"eapolParams":{"a":"x"}}`
)

// backups counts the backups of a rig, and records the network layer at that time.
type backups struct {
	of   []string
	fail error
}

// backed makes the controllers of a rig write backups.
func (r *rig) backed() *backups {
	b := &backups{}
	before := r.change
	r.change = func(o *Options) {
		if before != nil {
			before(o)
		}
		o.Backup = func(ctx context.Context) (string, error) {
			b.of = append(b.of, r.network1(ctx))
			return fmt.Sprintf("migration-%d.backup", len(b.of)), b.fail
		}
	}
	return b
}

func (r *rig) network1(ctx context.Context) string {
	s, err := history.Head(storage.NewReader(ctx, r.store))
	if err != nil {
		r.Fatal(err)
	}
	v, err := s.Layer(history.Layer{Kind: history.Network})
	if err != nil {
		r.Fatal(err)
	}
	return string(storage.Encode(v.Document))
}

// olderFleet is a store written by a controller without migrations.
func (r *rig) olderFleet(text string) {
	c := r.start("a")
	r.network(c, `{"envParams":{"B":"1"}}`)
	r.network(c, text)
	r.stop("a")
	if _, err := r.store.Commit(r.Context(), kv.Txn{Then: []kv.Op{kv.Delete(history.MigratedKey())}}); err != nil {
		r.Fatal(err)
	}
}

// shown returns the network layer, and the newest revision with its author.
func (r *rig) shown(c *Controller) string {
	r.Helper()
	all, err := c.History(r.Context(), fleetapi.HistoryQuery{Limit: 100})
	if err != nil {
		r.Fatal(err)
	}
	return fmt.Sprintf("%s %d %s", r.network1(r.Context()), all[0].Number, all[0].Author)
}

func TestTheFirstStartOfANewerVersionMigratesOnce(t *testing.T) {
	onRig(t, func(r *rig) {
		b := r.backed()
		r.olderFleet(oldKeys)
		c, other := r.start("a"), r.start("b")
		r.pass(time.Minute)
		const migrated = newKeys + " 3 migration"
		if got := r.shown(c); got != migrated || strings.Join(b.of, " ") != oldKeys {
			t.Fatalf("%s, backups of %v", got, b.of)
		}
		all, _ := c.History(r.Context(), fleetapi.HistoryQuery{Limit: 1})
		if !strings.Contains(all[0].Message,
			"RELEASE_M78: radioParamsBase.wsecParams.eapolParams -> eapolParams in network") {
			t.Errorf("its message: %s", all[0].Message)
		}
		r.stop("a")
		r.pass(time.Minute)
		r.stop("b")
		c = r.start("a")
		r.pass(2 * time.Hour)
		if got := r.shown(c); got != migrated || len(b.of) != 1 {
			t.Errorf("after a second start: %s, %d backups", got, len(b.of))
		}
		r.write(c, ops.Revert{Revision: 3})
		r.stop("a")
		c = r.start("a")
		r.pass(2 * time.Hour)
		if got := r.shown(c); got != oldKeys+" 4 alice" || len(b.of) != 1 {
			t.Errorf("reverted, it is %s, %d backups", got, len(b.of))
		}
		_ = other
	})
}

func TestNothingIsMigratedWithoutABackupOrWithAFault(t *testing.T) {
	for _, c := range []struct {
		name, text string
		fail       error
		mend       func(*rig, *Controller, *backups)
		want       string
	}{
		{"a full disk", oldKeys, errors.New("no space left on device"),
			func(_ *rig, _ *Controller, b *backups) { b.fail = nil }, newKeys + " 3 migration"},
		{"a value that can't be converted",
			`{"eapolParams":{"a":{}},"radioParamsBase":{"wsecParams":{"eapolParams":{"a":"x"}}}}`, nil,
			func(r *rig, c *Controller, _ *backups) { r.network(c, oldKeys) }, newKeys + " 4 migration"},
	} {
		onRig(t, func(r *rig) {
			b := r.backed()
			r.olderFleet(c.text)
			b.fail = c.fail
			at := r.start("a")
			r.pass(10 * time.Minute)
			if got := r.shown(at); got != c.text+" 2 alice" {
				t.Errorf("%s: %s", c.name, got)
			}
			if len(b.of) > 10 {
				t.Errorf("%s: %d backups were tried in ten minutes", c.name, len(b.of))
			}
			c.mend(r, at, b)
			r.pass(2 * time.Hour)
			if got := r.shown(at); got != c.want {
				t.Errorf("%s: mended, it is %s", c.name, got)
			}
		})
	}
}

// A node whose version knows only the old keys would lose their values.
func TestAMigrationWaitsForNodesOfAnOlderVersion(t *testing.T) {
	onRig(t, func(r *rig) {
		r.backed()
		c := r.start("a")
		n := r.join(c, "n1")
		n.software = "RELEASE_M77"
		n.connect(c)
		r.pass(10 * time.Second)
		r.stop("a")
		r.olderFleet(oldKeys)
		c = r.start("a")
		n.connect(c)
		r.pass(time.Hour)
		if got := r.shown(c); got != oldKeys+" 2 alice" {
			t.Fatalf("beside a node of RELEASE_M77: %s", got)
		}
		n.software = "RELEASE_M78"
		n.connect(c)
		r.pass(5 * time.Minute)
		if got := r.shown(c); got != newKeys+" 3 migration" {
			t.Errorf("after its upgrade: %s", got)
		}
	})
}

func TestAnImportBringsFilesToTheKeysOfTheFleet(t *testing.T) {
	onRig(t, func(r *rig) {
		b := r.backed()
		c := r.start("a")
		r.network(c, `{"envParams":{"B":"1"}}`)
		files := ops.Import{Files: history.Files{Network: r.doc(oldKeys)}}
		b.fail = errors.New("no space left on device")
		if _, err := c.Write(r.Context(), fleetapi.WriteRequest{Caller: alice, Write: files}); err == nil ||
			!strings.Contains(err.Error(), "no migration without a backup: no space") {
			t.Errorf("without a backup: %v", err)
		}
		dry, err := c.Write(r.Context(), fleetapi.WriteRequest{Caller: alice, Write: files, DryRun: true})
		if err != nil || !strings.Contains(strings.Join(dry.Warnings, "\n"), "migrated: RELEASE_M78: ") {
			t.Errorf("a dry run: %+v, %v", dry, err)
		}
		if got := r.shown(c); got != `{"envParams":{"B":"1"}} 1 alice` {
			t.Errorf("a refused import, and a dry run: %s", got)
		}
		b.fail, b.of = nil, nil
		r.write(c, files)
		if got := r.shown(c); got != newKeys+" 2 alice" || len(b.of) != 1 {
			t.Errorf("%s, %d backups", got, len(b.of))
		}
		r.write(c, files)
		if got := r.shown(c); got != newKeys+" 2 alice" || len(b.of) != 1 {
			t.Errorf("the same files: %s, %d backups", got, len(b.of))
		}
	})
}
