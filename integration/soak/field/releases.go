package field

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"edgespan/integration/soak/guest"
	"edgespan/integration/soak/model"
)

// NoRelease, in place of a release, is a soak without upgrades.
const NoRelease = "none"

// recorded is where each release has left what it does to a host.
const recorded = "integration/scenario/testdata/release"

// lastRelease returns the commit of the newest release that was recorded: a folder is named like its tag or its commit.
func lastRelease(ctx context.Context, top string) (string, error) {
	entries, err := os.ReadDir(filepath.Join(top, recorded))
	if err != nil {
		return "", err
	}
	best, newest := "", int64(0)
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		for _, rev := range []string{e.Name(), "v" + e.Name()} {
			out, err := git(ctx, top, "log", "-1", "--format=%H %ct", rev, "--")
			if err != nil {
				continue // not the name of a commit, or of a tag
			}
			commit, at, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
			if when, err := strconv.ParseInt(at, 10, 64); err == nil && when > newest {
				best, newest = commit, when
			}
		}
	}
	if best == "" {
		return "", fmt.Errorf("no release in %s is known to git: say -release COMMIT, or -release %s", recorded, NoRelease)
	}
	return best, nil
}

func git(ctx context.Context, top string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", top}, args...)...) // #nosec G204 -- as the operator asks
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, said.Bytes())
	}
	return out, nil
}

// buildRelease builds the daemon of an earlier release from its sources, and puts it with its unit into a folder.
func buildRelease(ctx context.Context, top, commit, to string) error {
	src, err := os.MkdirTemp("", "esrelease")
	if err != nil {
		return err
	}
	defer os.RemoveAll(src)
	sources, err := git(ctx, top, "archive", commit)
	if err != nil {
		return err
	}
	unpack := exec.CommandContext(ctx, "tar", "-x", "-C", src) // #nosec G204 -- our own path
	unpack.Stdin = bytes.NewReader(sources)
	if out, err := unpack.CombinedOutput(); err != nil {
		return fmt.Errorf("tar: %w: %s", err, out)
	}
	if err := buildPrograms(ctx, src, to, "./cmd/edgespan"); err != nil {
		return err
	}
	return copyFiles(map[string]string{
		filepath.Join(src, "deploy/edgespan.service"): filepath.Join(to, "edgespan.service"),
		filepath.Join(src, "scripts/setup.sh"):        filepath.Join(to, "setup.sh"),
	})
}

// upgrades installs the last release on a machine and gives it a configuration, as an operator would, and then goes to
// this release, back, and to this one again, while the apps send. No packet may be lost.
func (r *run) upgrades(ctx context.Context, m *machine) error {
	f := r.plan.Fleet().Alone(m.node)
	if err := r.install(ctx, m, "old", ""); err != nil {
		return err
	}
	const path = "/run/soak-node.json"
	apply := fmt.Sprintf("cat >%s <<'END'\n%s\nEND\nedgespan apply -f %[1]s", path, f.Document(m.node, r.keys))
	_, err := m.sh(ctx, apply)
	if err != nil {
		return err
	}
	r.within(ctx, m, settleLimit, "observed equals desired", r.unsettled)
	r.within(ctx, m, reachLimit, "what may pass does", func(context.Context, *machine) string {
		r.aim(m.node) // addresses come
		return strings.Join(r.missing(f), "; ")
	})
	capture, err := m.current().start([]string{"tcpdump", "-i", "any", "-n", "-s", "120", "-c", "200000", "-w",
		"/run/upgrades.pcap", // 24 MB at the most: it is in the guest's memory
		fmt.Sprintf("udp and portrange %d-%d", model.Served, model.Other)})
	if err != nil {
		return err
	}
	go drain(m.node, capture)
	defer m.sh(context.WithoutCancel(ctx), "pkill tcpdump; sleep 1; cp /run/upgrades.pcap "+outDir)
	for _, way := range []struct{ to, flags, what string }{
		{"new", nodeFlags, "an upgrade"}, {"old", "", "a downgrade"}, {"new", nodeFlags, "an upgrade after a downgrade"},
	} {
		count, err := r.counted(ctx, m, f, func() error {
			err := r.install(ctx, m, way.to, way.flags)
			r.within(ctx, m, settleLimit, "observed equals desired", func(ctx context.Context, m *machine) string {
				_ = wait(ctx, 2*time.Second) // each look takes processor from what is judged
				return r.unsettled(ctx, m)
			})
			return err
		})
		if err != nil {
			return err
		}
		r.say("node %d: %s: %d packets of apps sent, %d lost", m.node, way.what, count.sent, len(count.lost))
		r.mark("change", nodeName(m.node), way.what, 0)
		r.count("packets sent during upgrades and downgrades", int64(count.sent))
		r.count("packets lost during upgrades and downgrades", int64(len(count.lost)))
		for _, text := range count.lost {
			r.referee.violated(nodeName(m.node), way.what+" loses no packet", text)
		}
	}
	return nil
}

// counted are packets that had to be answered.
type counted struct {
	sent int
	lost []string
}

// counting is how often apps send while packets are counted.
const counting = 250 * time.Millisecond

// counted lets the apps of a machine send while something is done, and counts what is not answered.
func (r *run) counted(ctx context.Context, m *machine, f model.Fleet, do func() error) (counted, error) {
	drain := r.limit(2 * guest.TellEvery)
	r.send(f, 0)
	if err := wait(ctx, drain); err != nil { // until what was sent before is told
		return counted{}, err
	}
	r.reset(f)
	dropped := r.dropped(m.node)
	r.send(f, counting)
	err := do()
	err = errors.Join(err, wait(ctx, 3*time.Second))
	r.send(f, 0)
	err = errors.Join(err, wait(ctx, drain))
	return r.lossOf(f, r.dropped(m.node)-dropped), err
}

// lossOf compares what the apps of a configuration have sent with what was answered. What the wires did not pass
// on is not lost by the node.
func (r *run) lossOf(f model.Fleet, dropped int) (c counted) {
	eachWay(f, func(from, to model.Endpoint, port int) {
		sent, echoed := r.told(from, to, port)
		c.sent += sent
		if sent == 0 { // nothing has shown that this way stayed
			c.lost = append(c.lost, fmt.Sprintf("app %v to %v at port %d: nothing was sent", from, to, port))
		}
		lost := max(0, sent-echoed)
		if to == model.Outside { // what the wire could not pass on, it has lost
			excused := min(lost, dropped)
			lost, dropped = lost-excused, dropped-excused
		}
		for range lost {
			c.lost = append(c.lost, fmt.Sprintf("app %v to %v at port %d", from, to, port))
		}
	})
	return c
}

// send makes the apps of a configuration send to those of their node and outside, or, every 0, stop it.
func (r *run) send(f model.Fleet, every time.Duration) {
	for _, e := range endpoints(f) {
		if every > 0 {
			r.order(e, guest.Orders{Every: every})
		} else {
			r.app(e).tell(guest.Orders{})
		}
	}
}

// dropped is how many frames from or to a machine the wires could not pass on.
func (r *run) dropped(node int) int {
	n := 0
	for _, s := range r.segments {
		n += s.dropped(node)
	}
	return n
}
