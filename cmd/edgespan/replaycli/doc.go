// Package replaycli owns the command `replay`: which part of a recording is replayed, what of it is shown, and where a
// person looks at a core on the way.
//
// It never asks a daemon and changes nothing: the recording is read, and package pubsub/tape replays it.
package replaycli

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"edgespan/actors/node/cores"
	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/pubsub/tape"
)

// replay is one run of the command.
type replay struct {
	*reach.App
	until      string
	step, show bool
	core       string

	player  *tape.Player
	stop    moment // what --until waits for
	total   totals
	stopped bool
	input   lines
}

// collectAt is GOGC: what a step makes is garbage after it, and a core is small.
const collectAt = 400

// totals are what a replay has found.
type totals struct {
	steps, differ, states, skipped, lost int
	cores                                map[string]bool
	first, last                          time.Time
	versions                             []string
}

// New returns the command `replay`.
func New(a *reach.App) *cobra.Command {
	r := &replay{App: a}
	cmd := &cobra.Command{
		Use:   "replay DIR|FILE...",
		Short: "Run again what a daemon has recorded, and show what it decided and why",
		Example: `  edgespan replay /var/lib/edgespan/record
  edgespan replay edgespan-support-n1-20261128T120000Z.tar.gz
  edgespan replay /var/lib/edgespan/record --until ConfigGone
  edgespan replay /var/lib/edgespan/record --core network/0b07 --show`,
		Long: `replay runs the cores of a daemon again, with what they were told: configs, events of the host,
results of operations, outcomes of probes, leases and times. DIR is the folder of
'edgespan node --record', FILE a segment of it or a support archive.

It prints each step in which this version decides otherwise than the recorded one, or comes to
another state, and exits with 1 if there are any, or if no step could be replayed. It changes
nothing and needs no daemon.

--until stops after the first step that fits, and shows its event and the core's state. EVENT is the
number of a step, a time (RFC 3339, or 15:04:05: the next one after the recording begins), or a text
in the event or in what the daemon told people.
--step stops after each step: Enter goes on, "s" shows the core, "e" the event, "c" continues, "q" ends.`,
		Args: term.RangeArgs(1, 1000, "DIR or FILE"),
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args) },
	}
	f := cmd.Flags()
	f.StringVar(&r.until, "until", "", "stop after the first step that fits EVENT: a number, a time or a text")
	f.BoolVar(&r.step, "step", false, "stop after each step")
	f.BoolVar(&r.show, "show", false, "print each step")
	f.StringVar(&r.core, "core", "", "only steps of these cores: KIND, or KIND/ and the beginning of what it is of")
	return cmd
}

func (r *replay) run(ctx context.Context, names []string) error {
	var err error
	if r.stop, err = parseMoment(r.until); err != nil {
		return term.Usagef("--until: %w", err)
	}
	if err := checkCore(r.core); err != nil {
		return term.Usagef("--core: %w", err)
	}
	segments, err := find(names)
	if err != nil {
		return err
	}
	r.player = tape.NewPlayer(cores.Codec(), cores.Kinds())
	r.total.cores = map[string]bool{}
	r.input = newLines(r.In)
	var unread, damaged []error
	defer debug.SetGCPercent(debug.SetGCPercent(collectAt))
	began := time.Now()
	for _, s := range segments {
		if err := ctx.Err(); err != nil {
			return err
		}
		more, err := s.play(r.player, func(m tape.Moment) bool { return ctx.Err() == nil && r.see(m) })
		if err = s.named(err); errors.Is(err, tape.ErrDamaged) {
			damaged = append(damaged, err)
		} else if err != nil {
			unread = append(unread, err)
		}
		if !more {
			break
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(unread) == len(segments) {
		return unread[0]
	}
	for _, err := range append(unread, damaged...) { // of a power cut, for example
		r.Printf("%v", err)
	}
	r.sum(time.Since(began))
	switch {
	case r.total.differ+r.total.states > 0:
		return term.WithClass(term.ExitError, fmt.Errorf("%d of %s differ", r.total.differ+r.total.states,
			term.Many(r.total.steps, "step")))
	case r.total.steps == 0 && !r.stopped:
		return errNothing
	case r.until != "" && !r.stopped:
		return term.WithClass(term.ExitError, fmt.Errorf("--until: %s: nothing in the recording fits",
			term.Printable(r.until)))
	}
	return nil
}

// errNothing is the end of a replay that says nothing of this version.
var errNothing = term.WithClass(term.ExitError, errors.New("no step could be replayed"))

// others is a word if some steps could not be replayed.
func others(skipped int) string {
	if skipped > 0 {
		return "others "
	}
	return ""
}

// sum prints what the replay has found.
func (r *replay) sum(took time.Duration) {
	t := r.total
	span := t.last.Sub(t.first)
	r.sayf("%s of %s, %s to %s (%s), recorded by %s", term.Many(t.steps, "step"), term.Many(len(t.cores), "core"),
		t.first.Format(time.RFC3339), t.last.Format(time.RFC3339), span.Round(time.Second), versions(t.versions))
	if t.lost > 0 {
		r.sayf("%s were not recorded", term.Many(t.lost, "step"))
	}
	if t.skipped > 0 {
		r.sayf("%s could not be replayed", term.Many(t.skipped, "step"))
	}
	for _, name := range r.player.Unknown() {
		r.sayf("this version has no field %s: what it says is ignored", term.Printable(name))
	}
	speed := ""
	if span > took && took > 0 && !r.step {
		speed = fmt.Sprintf(", %.0f times as fast as it was", float64(span)/float64(took))
	}
	switch {
	case t.steps == 0: // errNothing follows
	case t.differ+t.states == 0:
		r.sayf("all %sdecide as recorded%s", others(t.skipped), speed)
	default:
		r.sayf("%d decide otherwise, %d have another state%s", t.differ, t.states, speed)
	}
}
