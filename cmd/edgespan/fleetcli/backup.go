package fleetcli

import (
	"bufio"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config/fleet/backup"
	"edgespan/platform/store"
)

// backupTime is the time that a backup may take in addition to reach.Timeout.
const backupTime = 10 * time.Minute

// backupMode is the file mode of a backup, which contains secrets and hashes of tokens.
const backupMode = 0o600

// backupSpecs are the commands for backups.
var backupSpecs = []fleetSpec{{
	use: "backup FILE", short: "Back up the controller's store into a file",
	args: term.ExactArgs(1, "one FILE, or -"),
	long: `Back up the controller's store into a file, as of one revision; - writes to stdout. For
admins. An existing file is replaced once the new one is complete and on disk.

The file contains the history, secrets in clear text and hashes of tokens; only its owner can read
it. 'edgespan-controller restore FILE' brings it back. The CA of the fleet is not in it: copy ca.pem
of a controller's data folder once.`,
	example: "  edgespan backup fleet.backup",
	flags:   func(_ *cobra.Command, c *fleetCall) { c.timeout = backupTime },
	run:     backUp,
}}

func backUp(c *fleetCall) error {
	var head backup.Header
	write := func(w io.Writer) (err error) {
		out := bufio.NewWriterSize(w, 1<<20)
		head, err = c.client.Backup(c.ctx, out)
		return errors.Join(err, out.Flush())
	}
	var err error
	if c.args[0] == "-" {
		err = write(c.a.Out)
	} else {
		err = store.WriteStream(c.args[0], backupMode, write)
	}
	if err != nil {
		return err
	}
	c.a.Printf("%s: %d keys as of revision %d of the store %s", term.Printable(c.args[0]), head.Keys, head.Revision,
		term.Printable(head.Store))
	return nil
}
