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

// systemctl asks systemd. Where there is none the error says so.
func (x *Executors) systemctl(ctx context.Context, words ...string) (string, error) {
	if _, err := os.Stat(x.systemd); err != nil {
		return "", fmt.Errorf("no systemd on this node (%s not found): use an executor with a command",
			x.systemd)
	}
	return x.run.Run(ctx, "", append([]string{"systemctl"}, words...)...)
}

// unit says how a unit is, by the words of systemctl(1) is-active.
func (x *Executors) unit(ctx context.Context, name string) (netstate.Condition, string, error) {
	out, err := x.systemctl(ctx, "is-active", "--", name)
	word := strings.TrimSpace(out)
	if word == "" { // it exits 3 for all that is not active, and says which on stdout
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
		return netstate.Right, "", nil
	}
	return netstate.Missing, "unit " + name + " is " + word, nil
}

// start starts a unit, and remembers whether it ran before.
func (x *Executors) start(ctx context.Context, folder string, e netstate.Executor) error {
	is, _, err := x.unit(ctx, e.Unit)
	if err == nil {
		err = write(folder, state{Executor: e, Preexisting: is == netstate.Right})
	}
	if err == nil && is != netstate.Right {
		_, err = x.systemctl(ctx, "start", "--", e.Unit)
	}
	return err
}

// stop stops a unit that we have started.
func (x *Executors) stop(ctx context.Context, st state) error {
	if st.Preexisting {
		return nil
	}
	is, _, err := x.unit(ctx, st.Unit)
	if err != nil || is != netstate.Right {
		return err
	}
	_, err = x.systemctl(ctx, "stop", "--", st.Unit)
	return err
}
