package fleetcli

import (
	"strconv"

	"edgespan/cmd/term"

	"github.com/spf13/cobra"
)

// hardwareSpecs are the commands of what nodes tell of boards that are not known.
var hardwareSpecs = []fleetSpec{{use: "boards", short: "Boards that nodes told of: proposals, and what was accepted",
	sub: []fleetSpec{
		{use: "list", short: "List proposals and what was accepted", args: term.ExactArgs(0, "none"), forms: tableForms,
			run: listHardware},
		{
			use: "show BOARD", short: "Show a proposal, or what is accepted of the board", args: term.ExactArgs(1, "one BOARD"),
			forms: documentForms,
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
				c.a.Say("digest %s", term.Printable(d.Digest))
				return nil
			},
		},
		{
			use:   "accept BOARD --digest DIGEST",
			short: "Make the proposal that 'boards show' showed the base of all nodes of the board",
			args:  term.ExactArgs(1, "one BOARD"),
			flags: func(cmd *cobra.Command, c *fleetCall) {
				fromFlag(cmd, c)
				cmd.Flags().StringVar(&c.digest, "digest", "",
					"of the proposal, as 'boards show' prints it: another one is not accepted")
			},
			run: func(c *fleetCall) error {
				if c.digest == "" {
					return term.Usagef("--digest: required: the one that 'edgespan boards show %s' prints", term.Printable(c.args[0]))
				}
				return c.said(c.client.AcceptHardware(c.ctx, c.args[0], c.from, c.digest), "accepted for all nodes of the board")
			},
		},
		{
			use: "reject BOARD", short: "Drop proposals; the nodes are asked again", args: term.ExactArgs(1, "one BOARD"),
			flags: fromFlag,
			run: func(c *fleetCall) error {
				return c.said(c.client.RejectHardware(c.ctx, c.args[0], c.from), "rejected")
			},
		},
		{
			use: "forget BOARD", short: "Take back what was accepted of a board", args: term.ExactArgs(1, "one BOARD"),
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
		c.a.Say("board %s: %s", term.Printable(c.args[0]), what)
	}
	return err
}

func listHardware(c *fleetCall) error {
	all, err := c.client.Hardware(c.ctx)
	if err != nil {
		return err
	}
	s := term.Shown{Data: term.OrEmpty(all), Empty: "no board is unknown, and none was accepted"}
	t := &term.Table{Head: []string{"BOARD", "STATE", "FROM", "AT", "BASE", "HARDWARE", "METADATA", "BYTES", "DIGEST"},
		Wide: c.output == "wide"}
	for _, h := range all {
		state := "proposed"
		if h.By != "" {
			state = "accepted by " + h.By
		}
		s.Names = append(s.Names, h.Board)
		t.Add(h.Board, state, h.Node, term.Moment(&h.At), term.Joined(h.Base), term.Joined(h.Hardware),
			strconv.Itoa(h.Metadata), strconv.Itoa(h.Bytes), h.Digest)
	}
	s.Table = func(bool) *term.Table { return t }
	return c.a.Show(s, c.output)
}
