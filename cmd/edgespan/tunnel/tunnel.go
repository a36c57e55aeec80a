// Package tunnel is the hidden command of edgespan that carries the packets of one WireGuard tunnel of a VPN network,
// where the kernel can't. The daemon starts it.
//
// It never reads a config, and knows nothing of the network.
package tunnel

import (
	"edgespan/cmd/term"
	"edgespan/platform/vpn/wireguard/helper"

	"github.com/spf13/cobra"
)

// New returns the command.
func New() *cobra.Command {
	return &cobra.Command{
		Use: helper.Command + " FOLDER LINK", Hidden: true, DisableFlagParsing: true,
		Short: "Carry the packets of a WireGuard tunnel, started by the daemon",
		Args:  term.ExactArgs(2, "a FOLDER and a LINK"),
		RunE:  func(_ *cobra.Command, args []string) error { return helper.Run(args[0], args[1]) },
	}
}
