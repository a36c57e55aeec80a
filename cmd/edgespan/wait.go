package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"edgespan/config/httpapi"
)

// pollInterval is how often wait asks; a question costs the daemon a map lookup.
const pollInterval = 50 * time.Millisecond

func newWait(a *app) *cobra.Command {
	var wanted string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait ni/ID|app/ID --for ready|absent [--timeout 30s]",
		Short: "Wait until a network or an app is ready, or gone",
		Long: `wait asks until the condition holds. A network is ready when it is Present, without
error and at its current generation; an app when it is not pending, without error and
activated as wanted. absent means neither config nor host objects.

An unknown ID is waited for with --for ready and absent at once. A daemon that does
not answer is waited for too.`,
		Args: exactArgs(1, "ni/ID or app/ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, id, _ := strings.Cut(args[0], "/")
			switch {
			case !slices.Contains(httpapi.WaitKinds(), kind) || id == "":
				return usagef("wait: target is %q: ni/ID or app/ID is allowed", args[0])
			case wanted != "ready" && wanted != "absent":
				return usagef("--for: is %q: ready absent are allowed", wanted)
			case timeout <= 0:
				return usagef("--timeout: is %s: a duration above 0 is allowed", timeout)
			}
			return a.wait(cmd.Context(), kind, id, wanted, timeout)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return append(a.liveIDs(cmd.Context(), "ni", "ni/"), a.liveIDs(cmd.Context(), "app", "app/")...), cobra.ShellCompDirectiveNoFileComp
		},
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
