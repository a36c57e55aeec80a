package action

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"edgespan/config"
	"edgespan/config/layers/metadata"
)

// Kind is the way in which a step is executed.
type Kind string

// Reconcile to Reboot are built in.
const (
	Unsupported  Kind = "unsupported" // nothing: the node has no mapping for the action
	Reconcile    Kind = "reconcile"   // compare all networks with the host and repair them
	Nameservers  Kind = "nameservers" // the same, and read the host's DNS servers again
	LogLevel     Kind = "log-level"   // apply sysParams.logLevel
	Tunnel       Kind = "tunnel"      // compare the networks with a tunnel and repair them
	RestartAgent Kind = "restart-agent"
	Reboot       Kind = "reboot"
	Unit         Kind = "unit"    // systemctl Verb Unit
	Command      Kind = "command" // Argv, without a shell
)

// The actions that stop the agent and therefore run last.
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

// Do is the execution of one action on this node.
type Do struct {
	Kind    Kind
	Unit    string   // for Unit, with its suffix
	Verb    string   // for Unit: "restart" or "reload"
	Argv    []string // for Command; the first is an absolute path
	Timeout time.Duration
}

func (d Do) equal(o Do) bool {
	return d.Kind == o.Kind && d.Unit == o.Unit && d.Verb == o.Verb && d.Timeout == o.Timeout &&
		slices.Equal(d.Argv, o.Argv)
}

// String formats the execution as a person would type it.
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

// ActionTable maps the names of actions to their executions on this node, in addition to the built-ins.
type ActionTable map[string]Do

// Find returns the execution of an action: Unsupported for a name without a mapping, known or not.
func (t ActionTable) Find(name string) Do {
	if d, ok := builtins[name]; ok {
		return d
	}
	if d, ok := t[name]; ok {
		return d
	}
	return Do{Kind: Unsupported}
}

// Step is one execution for all actions that share it.
type Step struct {
	Do      Do
	Actions []metadata.Action
	// Skip is the reason why the step is not executed; "" if it is.
	Skip string
}

// Plan returns the steps for a full difference of two configs (config.FullDiff).
func Plan(m *metadata.Metadata, diff config.Object, t ActionTable) []Step {
	return t.Steps(m.Actions(diff))
}

// Steps returns the steps for actions, given in any order, in the order of execution. Actions with equal executions
// share one step, at the place of the first. RESTART_MINION or REBOOT is last; a reboot replaces a restart.
func (t ActionTable) Steps(actions []metadata.Action) []Step {
	names := metadata.ActionNames()
	place := func(a metadata.Action) int {
		if i := slices.Index(names, a.Name); i >= 0 {
			return i
		}
		return -1 // unknown: first, but unsupported
	}
	actions = slices.Clone(actions)
	slices.SortStableFunc(actions, func(a, b metadata.Action) int { return place(a) - place(b) })
	reboots := slices.ContainsFunc(actions, func(a metadata.Action) bool { return a.Name == NameReboot })
	var out []Step
	for _, a := range actions {
		do := t.Find(a.Name)
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

// State is the outcome of an action.
type State string

// The outcomes of a requested action.
const (
	Done      State = "done"
	Failed    State = "failed"
	NoMapping State = "unsupported"
	Skipped   State = "skipped"
)

// Result is the outcome of one action, with its cause.
type Result struct {
	Action string
	State  State
	Cause  string // "" for Done
}

// String formats the result in one line.
func (r Result) String() string {
	if r.Cause == "" {
		return fmt.Sprintf("%s: %s", r.Action, r.State)
	}
	return fmt.Sprintf("%s: %s: %s", r.Action, r.State, r.Cause)
}

// Results returns the results of a step's actions. cause is the error of its execution, "" for success; it is ignored
// for a step that was skipped or unsupported and so never executed.
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
