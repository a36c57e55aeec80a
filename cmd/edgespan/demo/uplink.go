package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"edgespan/platform/lab"
)

const (
	// wan is the number of the lab's first uplink.
	wan = 0
	// switchIn is how long a network may take to leave an uplink whose far side is dead, on a busy machine too.
	switchIn = 10 * time.Second
)

// failover shows that the client's network leaves an uplink behind which nothing answers: the link is up, and the
// gateway answers.
func (d *demoRun) failover(ctx context.Context) (string, error) {
	if err := d.lab.Break(ctx, wan, lab.FarSideDead); err != nil {
		return "", err
	}
	took, err := d.leavesBy(ctx, lab.NodeAt2, switchIn)
	if err != nil {
		return "", err
	}
	return "its gateway still answers; the client leaves by lte after " + millis(took), nil
}

// failback shows that the network returns once the uplink has worked for its hold-down.
func (d *demoRun) failback(ctx context.Context) (string, error) {
	if err := d.lab.Repair(ctx, wan, lab.FarSideDead); err != nil {
		return "", err
	}
	took, err := d.leavesBy(ctx, lab.NodeAt, switchIn)
	if err != nil {
		return "", err
	}
	return "the client leaves by it again after " + millis(took) + ", with a hold-down of 2 s", nil
}

// leavesBy returns the time until the provider's web server sees the client come from an address of the node.
func (d *demoRun) leavesBy(ctx context.Context, at string, within time.Duration) (time.Duration, error) {
	began := time.Now()
	last := ""
	for time.Since(began) < within {
		r, err := d.lab.Exec(ctx, lab.AppClient, "curl", "-sS", "-m", "0.5", "http://"+lab.WebAddr+"/")
		switch {
		case err != nil:
			return 0, err
		case strings.Contains(r.Out, "you are "+at+":"):
			return time.Since(began), nil
		}
		last = strings.TrimSpace(r.Out + r.Err)
	}
	return 0, fmt.Errorf("no answer to %s within %v: %s", at, within, last)
}
