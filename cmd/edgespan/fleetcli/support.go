package fleetcli

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/supportcli"
	"edgespan/cmd/term"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/httpapi/rest"
	"edgespan/platform/support"
)

// supportTime is the time that an archive may take in addition to reach.Timeout.
const supportTime = 3 * time.Minute

// supportSpec is the command for support archives of nodes.
func supportSpec() fleetSpec {
	var q nodeproto.SupportRequest
	var file string
	var force bool
	return fleetSpec{
		use: "support NODE [-o FILE|-]", short: "Write a support archive of a connected node, without secrets",
		example: "  edgespan nodes support edge-1",
		long: `The node makes the archive that 'edgespan support' writes there, and the controller passes it on
without storing it. For operators; --flows is for admins. The controller and the node record who asked.

A node makes one archive at a time. It must be connected to this controller: of several, the error
names the one to ask. Of a node that is offline, or of an older version, run 'edgespan support' there.`,
		args: term.ExactArgs(1, "one NODE"), complete: firstNode,
		flags: func(cmd *cobra.Command, c *fleetCall) {
			f := cmd.Flags()
			f.StringVarP(&file, "output", "o", "", "FILE, or - for stdout (default edgespan-support-NODE-TIME.tar.gz)")
			f.DurationVar(&q.Since, "since", 0, "how far to go back in log and events (default 24h)")
			f.BoolVar(&q.NoLogs, "no-logs", false, "leave out the daemon's log")
			f.BoolVar(&q.Flows, "flows", false, "include the end of the flow log")
			f.BoolVar(&force, "force", false, "replace an existing file")
			c.timeout = supportTime
		},
		run: func(c *fleetCall) error {
			if q.Since < 0 {
				return term.Invalid("--since", q.Since, "more than 0s")
			}
			if err := supportcli.CheckOutput(file, c.a.Out); err != nil {
				return err
			}
			return supportOf(c, q, file, force)
		},
	}
}

// supportOf writes the archive of a node. A file appears only if the archive is complete and harmless.
func supportOf(c *fleetCall, q nodeproto.SupportRequest, file string, force bool) error {
	node := c.args[0]
	var made support.Manifest
	write := func(w io.Writer) (err error) {
		made, err = checkedArchive(w, func(w io.Writer) error { return c.client.Support(c.ctx, node, q, w) })
		var p *fleetapi.Problem
		if errors.As(err, &p) && p.Type == rest.TypeNoRoute {
			return fmt.Errorf("support: not supported by the controller's version: run 'edgespan support' on the node")
		}
		return err
	}
	if file == "-" {
		return write(c.a.Out)
	}
	if file == "" {
		file = support.Folder(node, time.Now()) + ".tar.gz"
	}
	if err := supportcli.WriteArchive(file, force, write); err != nil {
		return err
	}
	c.a.Printf("%s: %s, %d left out; its README.txt lists them", term.Printable(file), term.Many(len(made.Files), "file"),
		len(made.LeftOut))
	return nil
}

// checkedArchive checks an archive while it is written. It stops at the first fault: the node may send anything.
func checkedArchive(w io.Writer, get func(io.Writer) error) (support.Manifest, error) {
	in, tee := io.Pipe()
	type result struct {
		made support.Manifest
		err  error
	}
	checked := make(chan result, 1)
	go func() {
		made, err := support.Check(in)
		if err != nil {
			err = fmt.Errorf("support: what the node sent %w", err)
			in.CloseWithError(err)
		}
		checked <- result{made, err}
	}()
	err := get(io.MultiWriter(tee, w))
	tee.CloseWithError(err) // nil: io.EOF
	done := <-checked
	if err != nil {
		return done.made, err
	}
	return done.made, done.err
}
