// Command soak runs a fleet for hours among everything that goes wrong in the field: nodes in virtual machines with
// Debian's kernel and userland, their controller and two providers, changes and faults drawn from a seed, and judges
// that share no code with the product. It ends with a report, and with exit code 1 if an invariant was violated.
//
// It makes one network namespace of this machine and leaves nothing there. The same program is the agent of a guest, an
// app in it, and the client of a tap device.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"edgespan/integration/soak/field"
	"edgespan/integration/soak/guest"
	"edgespan/integration/soak/model"
)

func main() {
	if len(os.Args) > 1 {
		if err, is := guest.Main(os.Args[1:]); is {
			if err != nil {
				fmt.Fprintln(os.Stderr, "soak:", err)
				os.Exit(1)
			}
			return
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the soak at once, and what it started with it
	o, err := options()
	violated := false
	if err == nil {
		violated, err = field.Soak(ctx, o)
	}
	stop()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(2)
	case violated:
		os.Exit(1)
	}
}

func options() (o field.Options, err error) {
	flag.DurationVar(&o.Length, "length", 5*time.Minute, "how long the fleet runs, without the time to set it up")
	flag.Uint64Var(&o.Seed, "seed", 0, "seed of the plan (0: a new one)")
	flag.IntVar(&o.Nodes, "nodes", 2, "number of nodes, 2 to 9")
	flag.StringVar(&o.Accel, "accel", "", "how guests run: kvm or tcg (default: kvm if it works)")
	flag.StringVar(&o.Dir, "out", "", "folder of the report and of what nodes leave (default: a new one)")
	flag.StringVar(&o.Release, "release", "", "commit to upgrade from and downgrade to under traffic, or "+
		field.NoRelease+" (default: the newest recorded release)")
	only := flag.String("faults", "", "only these kinds of faults, separated by commas (default: all)")
	flag.Parse()
	if o.Nodes < 2 || o.Nodes > 9 {
		return o, fmt.Errorf("-nodes %d: must be 2 to 9", o.Nodes)
	}
	if o.Accel != "" && o.Accel != "kvm" && o.Accel != "tcg" {
		return o, fmt.Errorf("-accel %s: must be kvm or tcg", o.Accel)
	}
	if o.Faults, err = kinds(*only); err != nil {
		return o, err
	}
	if o.Seed == 0 {
		o.Seed = uint64(time.Now().UnixNano())%1_000_000 + 1 // #nosec G115 -- positive
	}
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "essoak"); err != nil {
			return o, err
		}
	}
	if o.Dir, err = filepath.Abs(o.Dir); err == nil {
		err = unused(o.Dir)
	}
	return o, err
}

// unused makes a folder, or fails if it has something in it: what another run has left there would be judged, too.
func unused(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("-out %s: has files: must be new or empty", dir)
	}
	return err
}

func kinds(text string) ([]model.Kind, error) {
	var out []model.Kind
	for name := range strings.SplitSeq(text, ",") {
		if name == "" {
			continue
		}
		if !slices.Contains(model.FaultKinds(), model.Kind(name)) {
			return nil, fmt.Errorf("-faults %q: must be among %q", name, model.FaultKinds())
		}
		out = append(out, model.Kind(name))
	}
	return out, nil
}
