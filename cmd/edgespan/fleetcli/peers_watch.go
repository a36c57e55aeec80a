package fleetcli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/httpapi/rest"
)

// again repeats a watch until it fails permanently or the command is interrupted, which is no error. A single watch
// ends after some minutes, or when its controller ends.
func (c *fleetCall) again(watch func(context.Context) error) error {
	ctx := c.cmd.Context() // without the time limit of a request
	lost := false
	for seen := false; ; {
		err := watch(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			seen, lost = true, false
		case !seen || !passing(err):
			return err
		case !lost:
			lost = true
			c.a.Printf("%s: retrying", term.Printable(err.Error()))
		}
		if !pause(ctx, reach.RetryWatch) {
			return nil
		}
	}
}

// passing reports whether an error may go away by itself.
func passing(err error) bool {
	return errors.Is(err, rest.ErrUnreachable) || errors.Is(err, rest.ErrBusy) || errors.Is(err, rest.ErrTimeout)
}

var watchHead = []string{"TIME", "OBJECT", "STATE", "REVIEW", "REASON"}

// watchedRow is a line of a watch.
type watchedRow struct{ object, state, review, reason string }

// teller prints a line for each row that changed since the last time.
type teller struct {
	live *term.Live
	last map[string]watchedRow
}

func (c *fleetCall) newTeller(first []watchedRow) *teller {
	widest := len("OBJECT")
	for _, r := range first {
		object := r.object
		if c.output != "wide" {
			object = shortIDs(object)
		}
		widest = max(widest, utf8.RuneCountInString(object))
	}
	return &teller{c.a.NewLive(c.output, watchHead, []int{12, widest, len("WaitingForDependencies"), len("REVIEW")}),
		map[string]watchedRow{}}
}

// short returns a text with short IDs, except with -o wide.
func (t *teller) short(text string) string {
	if t.live.Output == "wide" {
		return text
	}
	return shortIDs(text)
}

func (t *teller) print(data any, rows []watchedRow) error {
	if t.live.Output == "json" || t.live.Output == "yaml" {
		return t.live.Print(data, "", nil)
	}
	now := time.Now().Local().Format("15:04:05.000")
	shown := map[string]watchedRow{}
	for _, r := range rows {
		shown[r.object] = r
		if t.last[r.object] == r {
			continue
		}
		if err := t.live.Print(nil, r.object,
			[]string{now, t.short(r.object), r.state, r.review, t.short(r.reason)}); err != nil {
			return err
		}
	}
	for _, gone := range sortedNames(t.last) {
		if _, still := shown[gone]; !still {
			if err := t.live.Print(nil, gone, []string{now, t.short(gone), "gone", "", ""}); err != nil {
				return err
			}
		}
	}
	t.last = shown
	return nil
}

func sortedNames(rows map[string]watchedRow) []string {
	var out []string
	for name := range rows {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func (c *fleetCall) watchPeer() error {
	var t *teller
	return c.again(func(ctx context.Context) error {
		return c.client.WatchPeer(ctx, c.args[0], func(d fleetapi.PeerDetail) error {
			rows := []watchedRow{peerRow(d.Peer)}
			for _, p := range peerParameters(d) {
				rows = append(rows, watchedRow{p.ID, p.State, p.Review, p.Reason})
			}
			if t == nil {
				t = c.newTeller(rows)
			}
			return t.print(d, rows)
		})
	})
}

func (c *fleetCall) watchCluster() error {
	var t *teller
	return c.again(func(ctx context.Context) error {
		return c.client.WatchCluster(ctx, c.args[0], func(d fleetapi.ClusterDetail) error {
			rows := []watchedRow{{"cluster/" + d.Name, d.State + " " + d.Health, "", d.Why}}
			for _, p := range d.Peers {
				rows = append(rows, peerRow(p))
			}
			for _, x := range d.Tunnels {
				rows = append(rows, watchedRow{fmt.Sprintf("tunnel %s - %s", x.Between[0], x.Between[1]), term.Dash(x.States[0]) +
					" " + term.Dash(x.States[1]), "", x.Reason})
			}
			if t == nil {
				t = c.newTeller(rows)
			}
			return t.print(d, rows)
		})
	})
}

func peerRow(p fleetapi.Peer) watchedRow {
	word := "not ready"
	if p.Ready {
		word = "ready"
	}
	if p.Health != "green" || !p.Ready {
		word += " " + p.Health
	}
	return watchedRow{"peer/" + p.Name, word, "", p.Why}
}

// Waits are the conditions that wait checks by asking the controller, by kind.
var Waits = map[string][]string{"node": {"ready", "online"}, "peer": {"ready", "online"},
	"cluster": {"ready", "undeployed"}}

// Wait waits for a node of the fleet, a peer or a cluster. An unknown name is an error: waiting creates none of them.
func Wait(a *reach.App, cmd *cobra.Command, kind, name, desired string, timeout time.Duration) error {
	client, err := a.FleetClient()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
	defer cancel()
	var met bool
	last := errors.New("no answer yet")
	hear := func(ok bool, why string) error {
		if met = ok; met {
			return errMet
		}
		last = errors.New(cmp.Or(why, "unknown reason"))
		return nil
	}
	for {
		err := watchFor(ctx, client, kind, name, desired, hear)
		switch {
		case met:
			return nil
		case ctx.Err() != nil, err == nil: // a watch ends after some minutes
		case passing(err):
			last = err
		default:
			return oneLineOf(err)
		}
		if !pause(ctx, reach.RetryWatch) {
			return Waited(ctx, kind+"/"+name, desired, timeout, last)
		}
	}
}

var errMet = errors.New("the condition holds")

// watchFor watches an object and reports each time whether the condition holds, or why not.
func watchFor(ctx context.Context, client *fleetapi.Client, kind, name, desired string,
	hear func(met bool, why string) error) error {
	if kind == "cluster" {
		return client.WatchCluster(ctx, name, func(d fleetapi.ClusterDetail) error {
			if desired == "undeployed" {
				return hear(d.State == "undeployed", cmp.Or(d.Why, "it is "+d.State))
			}
			return hear(d.Ready, cmp.Or(d.Why, "it is "+d.State))
		})
	}
	if kind == "node" { // the API has no watch of a node: Wait asks again
		d, err := client.Node(ctx, name)
		if err != nil {
			return err
		}
		return hear(d.Online && (d.Ready || desired == "online"), d.Why)
	}
	return client.WatchPeer(ctx, name, func(d fleetapi.PeerDetail) error {
		if desired == "online" {
			return hear(d.Online, cmp.Or(d.Why, "it is offline"))
		}
		return hear(d.Ready, d.Why)
	})
}

// Waited returns the error of a wait whose condition never held: unreachable if that was the daemon's last known
// state, else a timeout, else an interrupt.
func Waited(ctx context.Context, target, desired string, timeout time.Duration, last error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("wait %s: interrupted: not %s: %s", target, desired, last.Error())
	}
	if errors.Is(last, rest.ErrUnreachable) {
		return fmt.Errorf("wait %s: not %s after %s: %w", target, desired, timeout, last)
	}
	return fmt.Errorf("wait %s: %w: not %s after %s: %s", target, rest.ErrTimeout, desired, timeout, last.Error())
}
