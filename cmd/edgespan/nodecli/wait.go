package nodecli

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/fleetcli"
	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
)

// Bounds of pollAfter.
const (
	pollMin = 50 * time.Millisecond
	pollMax = time.Second
)

// pollAfter returns the interval to the next poll: a tenth of the time waited so far. So a short wait ends promptly,
// and a long one doesn't poll twenty times a second.
func pollAfter(waited time.Duration) time.Duration {
	return min(max(waited/10, pollMin), pollMax)
}

// waitTargets are the forms of wait's argument.
const waitTargets = "ni/ID|app/ID|node/NAME|peer/NAME|cluster/NAME"

func newWait(a commands) *cobra.Command {
	var desired string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait " + waitTargets + " --for ready|absent|online|undeployed [--timeout 30s]",
		Short: "Wait until a network, an app, a node or a cluster reaches a state",
		Example: "  edgespan wait ni/demo --for ready --timeout 1m\n  edgespan wait app/web --for absent\n  edgespan wait " +
			"node/edge-1 --for online\n  edgespan wait cluster/lab",
		Long: `wait asks until the condition holds. A network is ready when it is Present, without
error and at its current generation; an app when it is not pending, without error and activated as
desired. absent means that neither config nor host objects exist.

ID is a UUID, or a display name that only one network or one app has. wait waits for an unknown one
with --for ready; with --for absent it is absent at once. wait also waits for a daemon that does not
answer.

node/NAME, peer/NAME and cluster/NAME are the controller's (--controller, or edgespan context). A
node or a peer is ready when it is online, runs its desired config, and every parameter is final;
--for online requires only the first. A cluster is ready when each member is online and has its
part; --for undeployed holds when no member has a part any more. wait waits for a controller that
does not answer, and exits 10 at once if the controller does not know NAME.`,
		Args: term.RangeArgs(1, 2, waitTargets),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, id, err := readTarget("wait", waitKinds(), args, waitTargets)
			switch {
			case err != nil:
				return err
			case id == "":
				return term.Required("ID", waitTargets)
			case !slices.Contains(waitsFor(kind), desired):
				return term.Invalid("--for", desired, config.OrList(waitsFor(kind))+" for "+kind+"/")
			case timeout <= 0:
				return term.Invalid("--timeout", timeout, "more than 0s")
			}
			if fleetcli.Waits[kind] != nil {
				return fleetcli.Wait(a.App, cmd, kind, id, desired, timeout)
			}
			for _, name := range reach.FlagNames {
				if cmd.Flags().Changed(name) {
					return term.Requires("--"+name, "node/NAME, peer/NAME or cluster/NAME")
				}
			}
			if err := checkWaited(kind, id); err != nil {
				return err
			}
			return a.wait(cmd.Context(), kind, id, desired, timeout)
		},
		ValidArgsFunction: a.completeTargets(waitKinds(), false),
	}
	cmd.Flags().StringVar(&desired, "for", "ready", "ready, absent, online or undeployed")
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "how long to wait, such as 500ms, 30s or 2m")
	return reach.AsksController(cmd)
}

// waitKinds returns the kinds of wait: the node's, then the controller's.
func waitKinds() []string { return append(nodeapi.WaitKinds(), "node", "peer", "cluster") }

// waitsFor returns the conditions that wait knows for a kind.
func waitsFor(kind string) []string {
	if of := fleetcli.Waits[kind]; of != nil {
		return of
	}
	return []string{"ready", "absent"}
}

func (a commands) wait(ctx context.Context, kind, id, desired string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c := a.Client()
	defer c.Close()
	begun := time.Now()
	last := errors.New("no answer yet")
	named := id
	for {
		// A name disappears with its object: once an object has it, wait asks by the object's UUID.
		if known, err := idOf(ctx, c, kind, id); err == nil {
			id = known
		} else if errors.Is(err, rest.ErrConflict) {
			return err
		}
		got, err := c.Ready(ctx, kind, id)
		switch {
		case err == nil:
			if desired == "ready" && got.Ready || desired == "absent" && got.Absent {
				return nil
			}
			last = errors.New(why(got))
		case errors.Is(err, rest.ErrNotFound):
			if desired == "absent" {
				return nil
			}
			last = errors.New("not found")
		case errors.Is(err, rest.ErrPermission):
			return err // waiting would not help
		case ctx.Err() == nil: // an error caused by our own deadline adds nothing
			last = err
		}
		select {
		case <-time.After(pollAfter(time.Since(begun))):
		case <-ctx.Done():
			return fleetcli.Waited(ctx, kind+"/"+named, desired, timeout, last)
		}
	}
}

func why(r nodeapi.Readiness) string {
	switch {
	case r.Why != "":
		return r.Why
	case r.Absent:
		return "not found"
	}
	return "still there"
}
