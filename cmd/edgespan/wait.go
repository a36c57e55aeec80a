package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"edgespan/config/httpapi"
)

// pollInterval is how often wait asks; a question costs the daemon a map lookup.
const pollInterval = 50 * time.Millisecond

// waitTargets is what wait takes.
const waitTargets = "ni/ID|app/ID"

func newWait(a *app) *cobra.Command {
	var wanted string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait " + waitTargets + " --for ready|absent [--timeout 30s]",
		Short: "Wait until a network or an app is ready, or gone",
		Long: `wait asks until the condition holds. A network is ready when it is Present, without
error and at its current generation; an app when it is not pending, without error and
activated as wanted. absent means neither config nor host objects.

An unknown ID is waited for with --for ready and absent at once. A daemon that does
not answer is waited for too.`,
		Args: rangeArgs(1, 2, waitTargets),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, id, err := readTarget("wait", httpapi.WaitKinds(), args, waitTargets)
			switch {
			case err != nil:
				return err
			case id == "":
				return usagef("wait: id is missing: %s is allowed", waitTargets)
			case wanted != "ready" && wanted != "absent":
				return usagef("--for: is %q: ready absent are allowed", wanted)
			case timeout <= 0:
				return usagef("--timeout: is %s: a duration above 0 is allowed", timeout)
			}
			if err := checkID("wait", kind, id); err != nil {
				return err
			}
			return a.wait(cmd.Context(), kind, id, wanted, timeout)
		},
		ValidArgsFunction: a.completeTargets(httpapi.WaitKinds(), false),
	}
	cmd.Flags().StringVar(&wanted, "for", "ready", "ready or absent")
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "how long, as 500ms, 30s or 2m")
	return cmd
}

func (a *app) wait(ctx context.Context, kind, id, wanted string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c := a.client()
	defer c.Close()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	last := errors.New("no answer yet")
	for {
		got, err := c.Ready(ctx, kind, id)
		switch {
		case err == nil:
			if wanted == "ready" && got.Ready || wanted == "absent" && got.Absent {
				return nil
			}
			last = errors.New(why(got))
		case errors.Is(err, httpapi.ErrNotFound):
			if wanted == "absent" {
				return nil
			}
			last = errors.New("unknown to the daemon")
		case errors.Is(err, httpapi.ErrPermission):
			return err // time does not change that
		case ctx.Err() == nil: // the answer that our own deadline cut off says nothing new
			last = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return waited(ctx, kind+"/"+id, wanted, timeout, last)
		}
	}
}

// waited is the error of a wait that ended unmet: unreachable if that is the last that
// was known of the daemon, else a timeout, else an interrupt.
func waited(ctx context.Context, target, wanted string, timeout time.Duration, last error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("wait %s: interrupted: not %s: %s", target, wanted, last.Error())
	}
	if errors.Is(last, httpapi.ErrUnreachable) {
		return fmt.Errorf("wait %s: not %s after %s: %w", target, wanted, timeout, last)
	}
	return fmt.Errorf("wait %s: %w: not %s after %s: %s", target, httpapi.ErrTimeout, wanted, timeout, last.Error())
}

func why(r httpapi.Readiness) string {
	switch {
	case r.Why != "":
		return r.Why
	case r.Absent:
		return "unknown to the daemon"
	}
	return "still there"
}
