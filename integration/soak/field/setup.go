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
	"sync"
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
	// Release is the commit that nodes are upgraded from first; "": the newest recorded release, or NoRelease.
	Release string
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
	r.referee.capture = r.capture
	r.segments = []*segment{newSegment(0, r.Seed, r.referee.frame), newSegment(1, r.Seed, r.referee.frame)}
	if r.lab, err = upLab(ctx, r.Dir, r.bin, r.segments, r.referee.app); err != nil {
		return err
	}
	return r.bootAll(ctx, img, how)
}

// bootAll boots all machines at a time, upgrades their nodes, and joins them.
func (r *run) bootAll(ctx context.Context, img image, how string) error {
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
	}
	if err := r.each(func(m *machine) error { return r.first(ctx, m) }); err != nil {
		return err
	}
	if r.Release != NoRelease {
		if err := r.each(func(m *machine) error { return r.upgrades(ctx, m) }); err != nil {
			return err
		}
	}
	return r.each(func(m *machine) error {
		if r.Release == NoRelease {
			if err := r.install(ctx, m, "new", nodeFlags); err != nil {
				return err
			}
		}
		return r.join(ctx, m)
	})
}

// each does something for all machines at a time.
func (r *run) each(do func(m *machine) error) error {
	failed := make([]error, len(r.machines))
	var wg sync.WaitGroup
	for i, m := range r.machines {
		wg.Go(func() { failed[i] = do(m) })
	}
	wg.Wait()
	return errors.Join(failed...)
}

// first boots a machine, and looks at what other programs have there.
func (r *run) first(ctx context.Context, m *machine) (err error) {
	if err := r.boot(ctx, m); err != nil {
		return err
	}
	r.say("node %d is up", m.node)
	kernel, err := m.sh(ctx, "uname -r")
	if err != nil {
		return err
	}
	m.keepsTables = keepsTables(kernel)
	r.foreign[m.node-1], err = m.sh(ctx, "sh "+guest.Dir+"/foreign.sh")
	return err
}

// build builds the programs of this version and of the last release, and the disk that all guests share.
func (r *run) build(ctx context.Context) error {
	content := filepath.Join(r.Dir, "payload")
	r.bin, r.payload = filepath.Join(content, "new"), filepath.Join(r.Dir, "payload.ext4")
	self, err := os.Executable()
	if err != nil {
		return err
	}
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("find the module: %w", err)
	}
	top := strings.TrimSpace(string(root))
	if out, err := git(ctx, top, "describe", "--tags", "--always", "--dirty"); err == nil {
		r.report.Version = strings.TrimSpace(string(out)) // as it is built: the sources may change before the report
	}
	if err := buildPrograms(ctx, top, r.bin, "./cmd/edgespan", "./cmd/edgespan-controller"); err != nil {
		return err
	}
	if r.Release == "" {
		if r.Release, err = lastRelease(ctx, top); err != nil {
			return err
		}
	}
	if r.Release != NoRelease {
		if err := buildRelease(ctx, top, r.Release, filepath.Join(content, "old")); err != nil {
			return fmt.Errorf("release %s: %w", r.Release, err)
		}
	}
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
	if err := copyFiles(map[string]string{self: filepath.Join(content, "soak"),
		filepath.Join(top, "deploy/edgespan.service"): filepath.Join(r.bin, "edgespan.service"),
		filepath.Join(top, "scripts/setup.sh"):        filepath.Join(r.bin, "setup.sh")}); err != nil {
		return err
	}
	return makeDisk(ctx, r.payload, "payload", content, "512M")
}

// buildPrograms builds programs from the sources in a folder, static ones, into a folder that it makes.
func buildPrograms(ctx context.Context, src, to string, programs ...string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	args := append([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", to + "/"}, programs...)
	cmd := exec.CommandContext(ctx, "go", args...) // #nosec G204 -- our own words
	cmd.Dir, cmd.Env = src, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	return nil
}

func copyFiles(copies map[string]string) error {
	for from, to := range copies {
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.WriteFile(to, text, 0o755); err != nil { // #nosec G306 -- programs
			return err
		}
	}
	return nil
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
