package field

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"edgespan/integration/soak/report"
)

// probe tells how guests run here: kvm if a kernel gets as far as its first message by it within 20 s, else tcg.
func probe(ctx context.Context, img image) string {
	if _, err := os.Stat("/dev/kvm"); err != nil {
		return "tcg"
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", "-accel", "kvm", "-cpu", "host", "-m", "256",
		"-nodefaults", "-nographic", "-no-reboot", "-kernel", img.kernel, "-append", "console=ttyS0 panic=-1",
		"-serial", "stdio") // #nosec G204 -- our own words
	var out bytes.Buffer
	cmd.Stdout = &out
	_ = cmd.Run() // a kernel without a root ends by itself; one that hangs is killed
	if strings.Contains(out.String(), "Linux version") && strings.Contains(out.String(), "Unable to mount root") {
		return "kvm"
	}
	return "tcg"
}

// live runs the fleet for its time. What fails in the soak itself, and not in the product, is noted as a violation of
// its own: a run in which a fault could not be made has proven less.
func (r *run) live(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := r.manage(ctx)
	defer r.beginSampling(ctx)()
	r.say("the fleet is managed: the soak begins")
	begin := time.Now()
	if err == nil {
		err = r.quiet(ctx)
	}
	for err == nil && time.Since(begin) < r.Length {
		s := r.plan.Next()
		if err = r.step(ctx, s); err == nil {
			err = r.pause(ctx, s.Pause)
		}
	}
	r.report.Length = time.Since(begin)
	if err == nil && ctx.Err() == nil {
		err = r.quiet(ctx)
	}
	if err != nil && ctx.Err() == nil { // else a person has ended it
		r.referee.violated("soak", "the soak itself works", err.Error())
	}
	for _, m := range r.machines {
		if m.current() != nil {
			r.leave(context.WithoutCancel(ctx), m)
		}
	}
}

// manage gives all nodes their first configuration, by the controller, and turns on staged rollouts.
func (r *run) manage(ctx context.Context) error {
	for _, args := range [][]string{
		{"nodes", "forget", "node-1"}, // whom a new controller invites: overrides of all nodes would not do for it
		{"network", "modify", "sysParams.managedConfig=true", "-m", "all nodes are ours"},
		{"controller", "modify", "flags.config_staged_rollout_enabled=true", "-m", "changes of all nodes go in stages"},
	} {
		if _, err := r.lab.operator(ctx, "", args...); err != nil {
			return err
		}
	}
	for n := range r.machines {
		if err := r.push(ctx, n+1, r.plan.Fleet(), "the first configuration"); err != nil {
			return err
		}
	}
	return r.layer(ctx, r.plan.Port(), "the first overrides of all nodes")
}

// repeat returns the command with the same decisions.
func (o Options) repeat() string {
	flags := fmt.Sprintf("-nodes %d -release %.12s", o.Nodes, o.Release)
	if len(o.Faults) > 0 {
		kinds := make([]string, len(o.Faults))
		for i, k := range o.Faults {
			kinds[i] = string(k)
		}
		flags += fmt.Sprintf(" -faults %q", strings.Join(kinds, ","))
	}
	return fmt.Sprintf("make soak SOAK=%v SEED=%d SOAKFLAGS='%s'", o.Length, o.Seed, flags)
}

// finish judges the whole run, checks that recordings replay, and writes the report.
func (r *run) finish() (violated bool, err error) {
	r.replay()
	defer r.capturing.Wait()
	rep := &r.report
	rep.Title, rep.Seed, rep.Begin, rep.Repeat = "edgespan soak", r.Seed, r.begin, r.repeat()
	rep.Release = r.Options.Release
	for _, key := range slices.Sorted(maps.Keys(r.series)) {
		rep.Series = append(rep.Series, *r.series[key])
	}
	if _, ok := r.ticks[1]; !ok && rep.Length > report.MinJudged {
		r.referee.violated("soak", "the soak itself works", "the daemon of node 1 was never measured")
	}
	growing, unknown := rep.Growing()
	for _, g := range growing {
		r.referee.violated(g.Machine, "nothing grows",
			fmt.Sprintf("%s: %+.1f ± %.1f %% an hour", g.Name, g.PerHour, g.Error))
	}
	for _, s := range unknown { // what is not measured is not judged
		r.referee.violated("soak", "the soak itself works",
			fmt.Sprintf("%s of %s has not been measured for long enough", s.Name, s.Machine))
	}
	frames, beacons, openly, violations := r.referee.seen()
	r.count("frames judged on the wire", frames)
	r.count("beacons judged at apps", beacons)
	r.count("packets past rules that another program had flushed", openly)
	rep.Violations = violations
	for name, write := range map[string]func(*os.File) error{
		"report.html": func(f *os.File) error { return rep.HTML(f) },
		"report.txt":  func(f *os.File) error { return rep.Text(f) },
	} {
		f, err := os.Create(filepath.Join(r.Dir, name))
		if err != nil {
			return false, err
		}
		if err := errors.Join(write(f), f.Close()); err != nil {
			return false, err
		}
	}
	if err := rep.Text(os.Stdout); err != nil {
		return false, err
	}
	fmt.Println("the report is", filepath.Join(r.Dir, "report.html"))
	return len(rep.Violations) > 0, nil
}

// replay runs again what each node has recorded: its states must follow from its inputs.
func (r *run) replay() {
	for _, m := range r.machines {
		dir := filepath.Join(m.out(), filepath.Base(recordDir))
		if _, err := os.Stat(dir); err != nil {
			r.referee.violated(nodeName(m.node), "recordings replay", err.Error())
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		out, err := exec.CommandContext(ctx, filepath.Join(r.bin, "edgespan"), "replay", dir).CombinedOutput() // #nosec G204
		cancel()
		_ = os.WriteFile(m.path("replay.txt"), out, 0o600)
		if err != nil {
			r.referee.violated(nodeName(m.node), "recordings replay",
				fmt.Sprintf("%v: %s", err, tail(m.path("replay.txt"), 400)))
		}
	}
}
