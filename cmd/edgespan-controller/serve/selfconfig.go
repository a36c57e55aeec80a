package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/fleet/controllerconf"
	"edgespan/config/nodeconf/action"
	"edgespan/platform/confdir"
	"edgespan/platform/proc"
	"edgespan/pubsub/loglevel"
)

// defaultActions is the default file of commands for the controller's actions.
const defaultActions = "/etc/edgespan/controller-actions.yaml"

// rebootWait is the delay before a controller ends itself, so that the response to the write gets out (the seed waits
// two seconds).
const rebootWait = 2 * time.Second

// assignTimeout bounds one assignment of channels to a fleet's links.
const assignTimeout = time.Minute

// Host is what a controller does to the machine; tests replace it.
type Host struct {
	Terminate func()                                         // sends SIGTERM to the process
	Command   func(ctx context.Context, argv []string) error // runs a command to its end
	Reboot    time.Duration                                  // delay before Terminate
}

// thisHost returns the real machine.
func thisHost() Host {
	return Host{
		Terminate: func() { _ = syscall.Kill(os.Getpid(), syscall.SIGTERM) },
		Command: func(ctx context.Context, argv []string) error {
			_, err := proc.New("").Run(ctx, "", argv...)
			return err
		},
		Reboot: rebootWait,
	}
}

// selfConfig performs the actions that changes of the controller's config entail, one change after the other, in a
// goroutine.
type selfConfig struct {
	Host
	log    *zap.Logger
	level  *loglevel.Levels
	table  action.ActionTable
	assign func(context.Context) error // assigns the channels of all links again
	flags  func(*Options)              // applies the new flags
	turn   func(context.Context) error // waits until this replica may restart; nil: at once

	mu      sync.Mutex
	options *Options
	waiting []controllerconf.Change
	wake    chan struct{}
}

// readActions reads the table of actions from a file, by default from defaultActions, which may be missing.
func readActions(file string) (action.ActionTable, error) {
	name := file
	if name == "" {
		name = defaultActions
	}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) && file == "" {
		return action.ActionTable{}, nil
	}
	if err != nil {
		return nil, term.WithClass(term.ExitNotFound, fmt.Errorf("read actions: %w", err))
	}
	t, faults := action.ParseController(text)
	if faults != nil {
		return nil, &confdir.Broken{File: name, Faults: faults}
	}
	return t, nil
}

func newSelfConfig(h Host, o *Options, table action.ActionTable, log *zap.Logger, level *loglevel.Levels) *selfConfig {
	level.SetBase(levelOf(o.V))
	return &selfConfig{Host: h, options: o, table: table, log: log, level: level, wake: make(chan struct{}, 1)}
}

// do queues a change and returns at once.
func (w *selfConfig) do(c controllerconf.Change) {
	w.mu.Lock()
	w.waiting = append(w.waiting, c)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run performs changes until ctx ends.
func (w *selfConfig) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
		for {
			w.mu.Lock()
			todo := w.waiting
			w.waiting = nil
			w.mu.Unlock()
			if len(todo) == 0 {
				break
			}
			for _, c := range todo {
				w.logResults(w.runActions(ctx, c), c)
			}
		}
	}
}

// logResults logs the results of a change, which are known only after the API has answered.
func (w *selfConfig) logResults(results []action.Result, c controllerconf.Change) {
	for _, r := range results {
		say := w.log.Info
		if r.State == action.Failed {
			say = w.log.Error
		}
		say("action of the controller's config", zap.String("action", r.Action), zap.String("state", string(r.State)),
			zap.String("cause", r.Cause))
	}
	for _, key := range c.NextStart {
		if !countsAtStart(key) {
			w.log.Info("stored, but this program does not read it from here", zap.String("key", config.FormatPath(key)))
			continue
		}
		w.log.Info("takes effect at the next start", zap.String("key", config.FormatPath(key)))
	}
}

// runActions performs the actions of a change in order.
func (w *selfConfig) runActions(ctx context.Context, c controllerconf.Change) []action.Result {
	var out []action.Result
	end := false
	for _, a := range c.Actions {
		r := action.Result{Action: a.Name, State: action.Done}
		var err error
		switch a.Name {
		case "UPDATE_GLOG_LEVEL", "UPDATE_GFLAG":
			err = w.setFlags(c.Flags, a.Name == "UPDATE_GLOG_LEVEL")
		case "UPDATE_CHANNEL_ASSIGNMENT":
			err = w.channels(ctx)
		case action.NameReboot:
			if end = slices.ContainsFunc(a.Keys, countsAtStart); !end {
				r.State, r.Cause = action.NoMapping,
					"no restart: the command line and the environment override these flags"
			}
		default:
			do := w.table.Find(a.Name)
			if do.Kind != action.Unit && do.Kind != action.Command {
				r.State, r.Cause = action.NoMapping, "no entry in the table of --actions"
				break
			}
			err = w.mapped(ctx, do)
		}
		if err != nil {
			r.State, r.Cause = action.Failed, err.Error()
		}
		out = append(out, r)
	}
	if end {
		time.AfterFunc(w.Reboot, func() { w.restart(ctx) })
	}
	return out
}

// countsAtStart reports whether a start reads a key of the stored config.
func countsAtStart(key []string) bool { return len(key) != 2 || isStored(key[1]) }

// restart ends this process when its turn comes: only one of several replicas is down at a time.
func (w *selfConfig) restart(ctx context.Context) {
	if w.turn != nil {
		if err := w.turn(ctx); err != nil {
			w.log.Error("restart needed for the controller's config: the change takes effect at the next start", zap.Error(err))
			return
		}
	}
	w.Terminate()
}

func (w *selfConfig) channels(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, assignTimeout)
	defer cancel()
	return w.assign(ctx)
}

// mapped runs the command that the table has for an action.
func (w *selfConfig) mapped(ctx context.Context, do action.Do) error {
	ctx, cancel := context.WithTimeout(ctx, do.Timeout)
	defer cancel()
	argv := do.Argv
	if do.Kind == action.Unit {
		argv = []string{"systemctl", do.Verb, do.Unit}
	}
	return w.Command(ctx, argv)
}

// setFlags changes flags of the running controller. The change takes effect now, even if the command line sets the
// flag: a seed's start script sets all flags of the config.
func (w *selfConfig) setFlags(changes []controllerconf.FlagChange, level bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := w.options.clone()
	var faults []error
	for _, c := range changes {
		if level != (c.Name == "v") {
			continue
		}
		s, known := next.find(c.Name)
		switch {
		case !known:
			faults = append(faults,
				fmt.Errorf("flag %s: unknown flag: stored, but ignored by this program",
					config.Truncate(c.Name, 80)))
			continue
		case !isStored(c.Name):
			faults = append(faults, fmt.Errorf("flag %s: %s", c.Name, instead(s.name)))
			continue
		}
		text := c.Value
		if c.Default {
			d, _ := NewOptions().find(c.Name)
			text = d.value.String()
		}
		if err := replace(s.value, text); err != nil {
			faults = append(faults, fmt.Errorf("flag %s: %w", c.Name, err))
			continue
		}
		if next.given[s.name] {
			w.log.Warn("the command line or the environment also sets this flag, and overrides it at the next start",
				zap.String("flag", s.name))
		}
	}
	w.options = next
	w.level.SetBase(levelOf(next.V))
	if w.flags != nil {
		w.flags(next)
	}
	return errors.Join(faults...)
}

// clone returns a deep copy.
func (o *Options) clone() *Options {
	c := NewOptions()
	for i, s := range o.table {
		_ = replace(c.table[i].value, s.value.String()) // the same type formatted it
	}
	for name, given := range o.given {
		c.given[name] = given
	}
	return c
}

// levelOf returns the log level for a value of --v.
func levelOf(v number) loglevel.Level {
	switch {
	case v < 0:
		return loglevel.Warn
	case v == 0:
		return loglevel.Info
	}
	return loglevel.Debug
}
