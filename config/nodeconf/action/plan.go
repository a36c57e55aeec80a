package action

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"edgespan/config"
	"edgespan/config/layers/metadata"
)

// Kind is what a step is done by.
type Kind string

// Those from Reconcile to Reboot are built in.
const (
	Unsupported  Kind = "unsupported" // nothing: the node has nothing for the action
	Reconcile    Kind = "reconcile"   // every network is compared with the host in full, and repaired
	Nameservers  Kind = "nameservers" // the same, and the DNS servers of the host are read anew
	LogLevel     Kind = "log-level"   // sysParams.logLevel is taken
	Tunnel       Kind = "tunnel"      // every network with a tunnel is compared in full, and repaired
	RestartAgent Kind = "restart-agent"
	Reboot       Kind = "reboot"
	Unit         Kind = "unit"    // systemctl Verb Unit
	Command      Kind = "command" // Argv, without a shell
)

// The actions that stop the agent, and so come last.
const (
	NameRestart = "RESTART_MINION"
	NameReboot  = "REBOOT"
)

var builtins = map[string]Do{
	"UPDATE_FIREWALL":      {Kind: Reconcile},
	"RELOAD_DNS_SERVERS":   {Kind: Nameservers},
	"UPDATE_GLOG_LEVEL":    {Kind: LogLevel},
	"RELOAD_TUNNEL_CONFIG": {Kind: Tunnel},
	NameRestart:            {Kind: RestartAgent},
	NameReboot:             {Kind: Reboot},
}

// Do is how one action is done on this node.
type Do struct {
	Kind    Kind
	Unit    string   // of a Unit, with its suffix
	Verb    string   // of a Unit: "restart" or "reload"
	Argv    []string // of a Command; the first is an absolute path
	Timeout time.Duration
}

func (d Do) equal(o Do) bool {
	return d.Kind == o.Kind && d.Unit == o.Unit && d.Verb == o.Verb && d.Timeout == o.Timeout &&
		slices.Equal(d.Argv, o.Argv)
}

// String says what is done, as a person would type it.
func (d Do) String() string {
	switch d.Kind {
	case Unit:
		return "systemctl " + d.Verb + " " + d.Unit
	case Command:
		return strings.Join(d.Argv, " ")
	default:
		return string(d.Kind)
	}
}

// Table is what this node has for actions by name, beside the built-ins.
type Table map[string]Do

// Of is how an action is done. A name without a mapping, known or not, is Unsupported.
func (t Table) Of(name string) Do {
	if d, is := builtins[name]; is {
		return d
	}
	if d, is := t[name]; is {
		return d
	}
	return Do{Kind: Unsupported}
}

// Step is one thing to do for all the actions that come to it.
type Step struct {
	Do      Do
	Actions []metadata.Action
	// Skip is why it is not done, "" where it is.
	Skip string
}

// Plan are the steps for a full difference of two configs (config.FullDiff).
func Plan(m *metadata.Metadata, diff config.Object, t Table) []Step { return t.Steps(m.Actions(diff)) }

// Steps are what actions come to, in the order of execution, whatever theirs is. Actions
// that come to the same are one step, at the place of the first. RESTART_MINION or REBOOT
// is last, and where both are asked for a reboot is enough.
func (t Table) Steps(actions []metadata.Action) []Step {
	names := metadata.ActionNames()
	place := func(a metadata.Action) int {
		if i := slices.Index(names, a.Name); i >= 0 {
			return i
		}
		return -1 // unknown: never done
	}
	actions = slices.Clone(actions)
	slices.SortStableFunc(actions, func(a, b metadata.Action) int { return place(a) - place(b) })
	reboots := slices.ContainsFunc(actions, func(a metadata.Action) bool { return a.Name == NameReboot })
	var out []Step
	for _, a := range actions {
		do := t.Of(a.Name)
		same := slices.IndexFunc(out, func(s Step) bool { return do.Kind != Unsupported && s.Do.equal(do) })
		if same >= 0 {
			out[same].Actions = append(out[same].Actions, a)
			continue
		}
		s := Step{Do: do, Actions: []metadata.Action{a}}
		if do.Kind == RestartAgent && reboots {
			s.Skip = NameReboot + " comes"
		}
		out = append(out, s)
	}
	return out
}

// State is how an action ended.
type State string

// Every action that was asked for has one of them.
const (
	Done      State = "done"
	Failed    State = "failed"
	NoMapping State = "unsupported"
	Skipped   State = "skipped"
)

// Result is what became of one action.
type Result struct {
	Action string
	State  State
	Cause  string // "" when it is done
}

// String is the result in one line.
func (r Result) String() string {
	if r.Cause == "" {
		return fmt.Sprintf("%s: %s", r.Action, r.State)
	}
	return fmt.Sprintf("%s: %s: %s", r.Action, r.State, r.Cause)
}

// Results are those of a step's actions, for what running it said: "" for well. A step that
// is skipped or unsupported was not run, and says so whatever is given.
func (s Step) Results(cause string) []Result {
	state := Done
	switch {
	case s.Do.Kind == Unsupported:
		state, cause = NoMapping, "this node has no mapping for it"
	case s.Skip != "":
		state, cause = Skipped, s.Skip
	case cause != "":
		state = Failed
	}
	out := make([]Result, len(s.Actions))
	for i, a := range s.Actions {
		out[i] = Result{a.Name, state, cause}
	}
	return out
}
