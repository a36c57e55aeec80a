package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
)

// systemctl runs systemctl. The error says so if the host has no systemd.
func (x *Executors) systemctl(ctx context.Context, words ...string) (string, error) {
	if _, err := os.Stat(x.systemd); err != nil {
		return "", fmt.Errorf("no systemd on this node (%s not found): use an executor with a command",
			x.systemd)
	}
	return x.run.Run(ctx, "", append([]string{"systemctl"}, words...)...)
}

// unit returns the condition of a unit by the output of systemctl is-active.
func (x *Executors) unit(ctx context.Context, name string) (netstate.Condition, string, error) {
	out, err := x.systemctl(ctx, "is-active", "--", name)
	word := strings.TrimSpace(out)
	if word == "" { // exit code 3 means not active; stdout has the state
		var failed *proc.Error
		if !errors.As(err, &failed) || ctx.Err() != nil {
			return netstate.Missing, "", err
		}
		if out, err = x.systemctl(ctx, "show", "--property=ActiveState", "--value", "--", name); err != nil {
			return netstate.Missing, "", err
		}
		word = strings.TrimSpace(out)
	}
	switch word {
	case "active", "reloading", "activating":
		return netstate.AsDesired, "", nil
	}
	return netstate.Missing, "unit " + name + " is " + word, nil
}

// start starts a unit, and records whether it was running before.
func (x *Executors) start(ctx context.Context, folder string, e netstate.Executor) error {
	ok, _, err := x.unit(ctx, e.Unit)
	if err == nil {
		err = write(folder, state{Executor: e, Preexisting: ok == netstate.AsDesired})
	}
	if err == nil && ok != netstate.AsDesired {
		_, err = x.systemctl(ctx, "start", "--", e.Unit)
	}
	return err
}

// stop stops a unit, unless it was running before edgespan.
func (x *Executors) stop(ctx context.Context, st state) error {
	if st.Preexisting {
		return nil
	}
	ok, _, err := x.unit(ctx, st.Unit)
	if err != nil || ok != netstate.AsDesired {
		return err
	}
	_, err = x.systemctl(ctx, "stop", "--", st.Unit)
	return err
}
