// Command soak runs a fleet for hours among everything that goes wrong in the field: nodes in virtual machines with
// Debian's kernel and userland, their controller and two providers, changes and faults drawn from a seed, and judges
// that share no code with the product. It ends with a report, and with exit code 1 if an invariant was violated.
//
// It makes one network namespace of this machine and leaves nothing there. The same program is the agent of a guest, an
// app in it, and the client of a tap device.
package main

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"edgespan/integration/soak/model"
	"edgespan/integration/soak/report"
)

var (
	length  = flag.Duration("length", 5*time.Minute, "how long the fleet runs, without the time to set it up")
	seed    = flag.Uint64("seed", 0, "seed of the plan (0: one is drawn)")
	nodes   = flag.Int("nodes", 2, "number of nodes, 2 to 9")
	release = flag.String("release", "", "commit of the last release (default: the newest one that is recorded)")
	accel   = flag.String("accel", "", "how guests run: kvm or tcg (default: kvm if it works)")
	outside = flag.String("out", "", "folder of the report and of what a failed run leaves (default: a new one)")
	faults  = flag.String("faults", "", "only these kinds of faults, separated by commas (default: all)")
)

// recordDir is where a node records what its cores decide.
const recordDir = "/var/lib/edgespan-record"

const nodeFlags = "--record " + recordDir + " --record-size 32"

func main() {
	if len(os.Args) > 1 {
		if err, is := guestMain(os.Args[1:]); is {
			if err != nil {
				fmt.Fprintln(os.Stderr, "soak:", err)
				os.Exit(1)
			}
			return
		}
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := soak(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		code = 2
	}
	stop()
	os.Exit(code) //nolint:gocritic // stop has been called
}

// guestMain runs what the program is besides: in guests, and in the namespace of the lab.
func guestMain(args []string) (err error, is bool) {
	switch {
	case args[0] == "agent":
		return agentMain(), true
	case args[0] == "app" && len(args) == 3:
		return appMain(args[1], args[2]), true
	case args[0] == "relay" && len(args) == 5:
		return relayMain(args[1], args[2], args[3], args[4]), true
	case args[0] == "sample":
		return sampleMain(), true
	}
	return nil, false
}

// soak is the whole run. The exit code is 1 if an invariant was violated.
func soak(ctx context.Context) (code int, err error) {
	if *nodes < 2 || *nodes > 9 {
		return 2, fmt.Errorf("-nodes %d: must be 2 to 9", *nodes)
	}
	only, err := kinds(*faults)
	if err != nil {
		return 2, err
	}
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())%1_000_000 + 1 // #nosec G115 -- positive
	}
	r := &run{seed: *seed, slow: 1, dir: *outside, plan: model.NewPlan(*seed, *nodes, only...),
		apps: map[model.Endpoint]*appLine{}, series: map[string]*report.Series{}, ticks: map[int]ticked{}}
	if r.dir == "" {
		if r.dir, err = os.MkdirTemp("", "essoak"); err != nil {
			return 2, err
		}
	}
	if r.dir, err = filepath.Abs(r.dir); err != nil {
		return 2, err
	}
	r.begin = time.Now()
	defer func() { err = errors.Join(err, r.tearDown()) }()
	if err := r.setUp(ctx); err != nil {
		return 2, err
	}
	r.live(ctx)
	return r.finish()
}

func kinds(text string) ([]model.Kind, error) {
	var out []model.Kind
	for name := range strings.SplitSeq(text, ",") {
		if name == "" {
			continue
		}
		if !slices.Contains(model.FaultKinds(), model.Kind(name)) {
			return nil, fmt.Errorf("-faults %q: must be among %q", name, model.FaultKinds())
		}
		out = append(out, model.Kind(name))
	}
	return out, nil
}

// setUp builds the programs, boots the machines and brings the fleet to its first configuration.
func (r *run) setUp(ctx context.Context) error {
	img, err := findImage(ctx)
	if err != nil {
		return err
	}
	how := *accel
	if how == "" {
		how = probe(ctx, img)
	}
	if how != "kvm" {
		r.slow = 3
	}
	r.report.Accel = how
	r.say("seed %d, %d nodes by %s, %v; everything is left in %s", r.seed, *nodes, how, *length, r.dir)
	if err := r.build(ctx); err != nil {
		return err
	}
	for range *nodes {
		key, err := ecdh.X25519().GenerateKey(rand.Reader)
		if err != nil {
			return err
		}
		r.keys.Private = append(r.keys.Private, base64.StdEncoding.EncodeToString(key.Bytes()))
		r.keys.Public = append(r.keys.Public, base64.StdEncoding.EncodeToString(key.PublicKey().Bytes()))
	}
	r.judge = newJudge(r.begin, r.plan.Fleet())
	r.segments = []*segment{newSegment(0, r.seed, r.judge.frame), newSegment(1, r.seed, r.judge.frame)}
	if r.lab, err = upLab(ctx, r.dir, r.bin, r.segments); err != nil {
		return err
	}
	r.lab.outside.judge = r.judge.app
	return r.bootAll(ctx, img, how)
}

// bootAll boots all machines at a time, and joins their nodes.
func (r *run) bootAll(ctx context.Context, img image, how string) error {
	failed := make(chan error, *nodes)
	for n := 1; n <= *nodes; n++ {
		m := &machine{node: n, dir: filepath.Join(r.dir, nodeName(n)), payload: r.payload, img: img, accel: how}
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
	for range *nodes {
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
	if r.foreign[m.node-1], err = m.sh(ctx, "sh "+guestDir+"/foreign.sh"); err != nil {
		return err
	}
	if err := r.install(ctx, m, "new", nodeFlags); err != nil {
		return err
	}
	return r.join(ctx, m)
}

// build builds the programs of this version, and the disk that all guests share.
func (r *run) build(ctx context.Context) error {
	content := filepath.Join(r.dir, "payload")
	r.bin, r.payload = filepath.Join(content, "new"), filepath.Join(r.dir, "payload.ext4")
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
	for _, name := range []string{"up.sh", "install.sh", "foreign.sh", "lease.sh"} {
		copies[filepath.Join(top, "integration/soak/guest", name)] = name
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
