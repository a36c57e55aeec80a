package main

import (
	"strconv"

	"github.com/spf13/cobra"
)

// hardwareSpecs are the commands of what nodes tell of boards that are not known.
var hardwareSpecs = []fleetSpec{{use: "boards", short: "Boards that nodes told of: proposals, and what was accepted", sub: []fleetSpec{
	{use: "list", short: "List proposals and what was accepted", args: exactArgs(0, "none"), forms: tableForms, run: listHardware},
	{
		use: "show BOARD", short: "Show a proposal, or what is accepted of the board", args: exactArgs(1, "one BOARD"), forms: documentForms,
		flags: func(cmd *cobra.Command, c *fleetCall) {
			fromFlag(cmd, c)
			bindReveal(cmd, c)
		},
		run: func(c *fleetCall) error {
			d, err := c.client.HardwareConfig(c.ctx, c.args[0], c.from, c.reveal)
			if err != nil {
				return err
			}
			if err := c.versioned(d); err != nil || d.Digest == "" {
				return err
			}
			c.a.say("digest %s", printable(d.Digest))
			return nil
		},
	},
	{
		use: "accept BOARD --digest DIGEST", short: "Make the proposal that 'boards show' showed the base of all nodes of the board", args: exactArgs(1, "one BOARD"),
		flags: func(cmd *cobra.Command, c *fleetCall) {
			fromFlag(cmd, c)
			cmd.Flags().StringVar(&c.digest, "digest", "", "of the proposal, as 'boards show' prints it: another one is not accepted")
		},
		run: func(c *fleetCall) error {
			if c.digest == "" {
				return usagef("--digest: required: the one that 'edgespan boards show %s' prints", printable(c.args[0]))
			}
			return c.said(c.client.AcceptHardware(c.ctx, c.args[0], c.from, c.digest), "accepted for all nodes of the board")
		},
	},
	{
		use: "reject BOARD", short: "Drop proposals; the nodes are asked again", args: exactArgs(1, "one BOARD"), flags: fromFlag,
		run: func(c *fleetCall) error {
			return c.said(c.client.RejectHardware(c.ctx, c.args[0], c.from), "rejected")
		},
	},
	{
		use: "forget BOARD", short: "Take back what was accepted of a board", args: exactArgs(1, "one BOARD"),
		run: func(c *fleetCall) error {
			return c.said(c.client.ForgetHardware(c.ctx, c.args[0]), "no longer known")
		},
	},
}}}

func fromFlag(cmd *cobra.Command, c *fleetCall) {
	cmd.Flags().StringVar(&c.from, "from", "", "node whose proposal is meant, where several made one")
}

// said says what became of a board.
func (c *fleetCall) said(err error, what string) error {
	if err == nil {
		c.a.say("board %s: %s", printable(c.args[0]), what)
	}
	return err
}

func listHardware(c *fleetCall) error {
	all, err := c.client.Hardware(c.ctx)
	if err != nil {
		return err
	}
	s := shown{data: orEmpty(all), empty: "no board is unknown, and none was accepted"}
	t := &table{head: []string{"BOARD", "STATE", "FROM", "AT", "BASE", "HARDWARE", "METADATA", "BYTES", "DIGEST"}, wide: c.output == "wide"}
	for _, h := range all {
		state := "proposed"
		if h.By != "" {
			state = "accepted by " + h.By
		}
		s.names = append(s.names, h.Board)
		t.add(h.Board, state, h.Node, moment(&h.At), joined(h.Base), joined(h.Hardware), strconv.Itoa(h.Metadata), strconv.Itoa(h.Bytes), h.Digest)
	}
	s.table = func(bool) *table { return t }
	return c.a.show(s, c.output)
}
