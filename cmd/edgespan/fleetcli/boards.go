package fleetcli

import (
	"fmt"
	"strconv"

	"edgespan/cmd/term"

	"github.com/spf13/cobra"
)

// hardwareSpecs are the commands for unknown boards that nodes reported.
var hardwareSpecs = []fleetSpec{{use: "boards",
	short: "Manage the hardware boards that nodes reported",
	sub: []fleetSpec{
		{use: "list", short: "List proposed and accepted boards",
			example: "  edgespan boards list",
			args:    term.ExactArgs(0, ""), forms: tableForms,
			run: listHardware},
		{
			use: "show BOARD", short: "Show a proposal, or the accepted config of a board",
			example: "  edgespan boards show ACME_1\n  edgespan boards show ACME_1 --from edge-1 -o yaml",
			args:    term.ExactArgs(1, "one BOARD"),
			forms:   documentForms,
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
				c.a.Printf("digest %s", term.Printable(d.Digest))
				return nil
			},
		},
		{
			use:     "accept BOARD --digest DIGEST",
			short:   "Accept a proposal as the base config of all nodes of the board",
			example: "  edgespan boards accept ACME_1 --digest 5c1f0a7e",
			args:    term.ExactArgs(1, "one BOARD"),
			flags: func(cmd *cobra.Command, c *fleetCall) {
				fromFlag(cmd, c)
				cmd.Flags().StringVar(&c.digest, "digest", "",
					"digest of the proposal, as 'boards show' prints it")
			},
			run: func(c *fleetCall) error {
				if c.digest == "" {
					return term.Required("--digest", fmt.Sprintf("'edgespan boards show %s' prints it", term.Printable(c.args[0])))
				}
				return c.explainBoard(c.client.AcceptHardware(c.ctx, c.args[0], c.from, c.digest),
					"accepted for all nodes of the board")
			},
		},
		{
			use: "reject BOARD", short: "Reject proposals; the nodes are asked again",
			example: "  edgespan boards reject ACME_1 --from edge-1",
			args:    term.ExactArgs(1, "one BOARD"),
			flags:   fromFlag,
			run: func(c *fleetCall) error {
				return c.explainBoard(c.client.RejectHardware(c.ctx, c.args[0], c.from), "rejected")
			},
		},
		{
			use: "forget BOARD", short: "Remove the accepted config of a board",
			example: "  edgespan boards forget ACME_1",
			args:    term.ExactArgs(1, "one BOARD"),
			run: func(c *fleetCall) error {
				return c.explainBoard(c.client.ForgetHardware(c.ctx, c.args[0]), "removed")
			},
		},
	}}}

func fromFlag(cmd *cobra.Command, c *fleetCall) {
	cmd.Flags().StringVar(&c.from, "from", "", "node that made the proposal, if several did")
}

// explainBoard prints what happened to a board, unless err is set.
func (c *fleetCall) explainBoard(err error, what string) error {
	if err == nil {
		c.a.Printf("board %s: %s", term.Printable(c.args[0]), what)
	}
	return err
}

func listHardware(c *fleetCall) error {
	all, err := c.client.Hardware(c.ctx)
	if err != nil {
		return err
	}
	s := term.Shown{Data: term.OrEmpty(all), Empty: "no unknown and no accepted boards"}
	t := &term.Table{Head: []string{"BOARD", "STATE", "FROM", "AT", "BASE", "HARDWARE", "METADATA", "BYTES", "DIGEST"},
		Wide: c.output == "wide"}
	for _, h := range all {
		state := "proposed"
		if h.By != "" {
			state = "accepted by " + h.By
		}
		s.Names = append(s.Names, h.Board)
		t.Add(h.Board, state, h.Node, term.FormatTime(&h.At), term.Joined(h.Base), term.Joined(h.Hardware),
			strconv.Itoa(h.Metadata), strconv.Itoa(h.Bytes), h.Digest)
	}
	s.Table = func(bool) *term.Table { return t }
	return c.a.Show(s, c.output)
}
