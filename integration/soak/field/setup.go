// Package field runs a soak: it makes the machines, the wires and what is outside of them, does the steps of the plan,
// and judges what it sees. It never asks a node whether it is right about its own packets.
package field

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"edgespan/integration/soak/guest"
	"edgespan/integration/soak/model"
	"edgespan/integration/soak/report"
)

// Options are what a soak is asked for.
type Options struct {
	Length time.Duration // without the time to set up
	Seed   uint64
	Nodes  int
	Accel  string       // "kvm" or "tcg"; "": kvm if it works
	Dir    string       // of the report and of what nodes leave
	Faults []model.Kind // only these; none: all
}

// recordDir is where a node records what its cores decide.
const recordDir = "/var/lib/edgespan-record"

const nodeFlags = "--record " + recordDir + " --record-size 32"

// Soak runs a fleet, and tells whether an invariant was violated. What it has seen is in o.Dir.
func Soak(ctx context.Context, o Options) (violated bool, err error) {
	r := &run{Options: o, slow: 1, begin: time.Now(), plan: model.NewPlan(o.Seed, o.Nodes, o.Faults...),
		apps: map[model.Endpoint]*appLine{}, series: map[string]*report.Series{}, ticks: map[int]ticked{}}
	defer func() { err = errors.Join(err, r.tearDown()) }()
	if err := r.setUp(ctx); err != nil {
		return false, err
	}
	r.live(ctx)
	return r.finish()
}

//go:embed scripts
var scriptFiles embed.FS

// setUp builds the programs, boots the machines and brings the fleet to its first configuration.
func (r *run) setUp(ctx context.Context) error {
	img, err := findImage(ctx)
	if err != nil {
		return err
	}
	how := r.Accel
	if how == "" {
		how = probe(ctx, img)
	}
	if how != "kvm" {
		r.slow = 3
	}
	r.report.Accel = how
	r.say("seed %d, %d nodes by %s, %v; everything is left in %s", r.Seed, r.Nodes, how, r.Length, r.Dir)
	if err := r.build(ctx); err != nil {
		return err
	}
	for range r.Nodes {
		key, err := ecdh.X25519().GenerateKey(rand.Reader)
		if err != nil {
			return err
		}
		r.keys.Private = append(r.keys.Private, base64.StdEncoding.EncodeToString(key.Bytes()))
		r.keys.Public = append(r.keys.Public, base64.StdEncoding.EncodeToString(key.PublicKey().Bytes()))
	}
	r.referee = newReferee(r.begin, r.plan.Fleet())
	r.segments = []*segment{newSegment(0, r.Seed, r.referee.frame), newSegment(1, r.Seed, r.referee.frame)}
	if r.lab, err = upLab(ctx, r.Dir, r.bin, r.segments); err != nil {
		return err
	}
	r.lab.outside.watch = r.referee.app
	return r.bootAll(ctx, img, how)
}

// bootAll boots all machines at a time, and joins their nodes.
func (r *run) bootAll(ctx context.Context, img image, how string) error {
	failed := make(chan error, r.Nodes)
	for n := 1; n <= r.Nodes; n++ {
		m := &machine{node: n, dir: filepath.Join(r.Dir, nodeName(n)), payload: r.payload, img: img, accel: how}
		r.machines = append(r.machines, m)
		r.foreign = append(r.foreign, "")
		if err := m.prepare(ctx); err != nil {
			return err
		}
		for _, s := range r.segments {
			if err := s.connect(m); err != nil {
				return err
			}
		}
		go func() { failed <- r.first(ctx, m) }()
	}
	var all []error
	for range r.Nodes {
		all = append(all, <-failed)
	}
	return errors.Join(all...)
}

// first brings a machine to the point where its node has joined the fleet with the last release.
func (r *run) first(ctx context.Context, m *machine) (err error) {
	if err := r.boot(ctx, m); err != nil {
		return err
	}
	r.say("node %d is up", m.node)
	if r.foreign[m.node-1], err = m.sh(ctx, "sh "+guest.Dir+"/foreign.sh"); err != nil {
		return err
	}
	if err := r.install(ctx, m, "new", nodeFlags); err != nil {
		return err
	}
	return r.join(ctx, m)
}

// build builds the programs of this version, and the disk that all guests share.
func (r *run) build(ctx context.Context) error {
	content := filepath.Join(r.Dir, "payload")
	r.bin, r.payload = filepath.Join(content, "new"), filepath.Join(r.Dir, "payload.ext4")
	if err := os.MkdirAll(r.bin, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", r.bin+"/", "edgespan/cmd/edgespan",
		"edgespan/cmd/edgespan-controller")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("find the module: %w", err)
	}
	top := strings.TrimSpace(string(root))
	copies := map[string]string{self: "soak", filepath.Join(top, "deploy/edgespan.service"): "new/edgespan.service",
		filepath.Join(top, "scripts/setup.sh"): "new/setup.sh"}
	scripts, err := fs.Sub(scriptFiles, "scripts")
	if err == nil {
		err = os.CopyFS(content, scripts)
	}
	if err == nil {
		err = os.Chmod(filepath.Join(content, "lease.sh"), 0o755) // #nosec G302 -- udhcpc runs it
	}
	if err != nil {
		return err
	}
	for from, to := range copies {
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(content, to), text, 0o755); err != nil { // #nosec G306 -- programs
			return err
		}
	}
	return makeDisk(ctx, r.payload, "payload", content, "512M")
}

// tearDown ends all that was started.
func (r *run) tearDown() error {
	for _, m := range r.machines {
		m.cut()
	}
	if r.lab == nil {
		return nil
	}
	return r.lab.down()
}
