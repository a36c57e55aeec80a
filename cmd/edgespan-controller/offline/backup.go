package offline

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan-controller/serve"
	"edgespan/cmd/term"
	"edgespan/config/fleet/backup"
	"edgespan/platform/datadir"
	"edgespan/platform/store/backend"
)

// backupTimeout bounds a backup or a restore.
const backupTimeout = time.Hour

const aboutBackup = `

The file contains everything ever written, secrets in clear text and hashes of tokens; only its
owner can read it. The CA of the fleet is not in it: copy ca.pem of the data folder once, after the
first start, to where the backups are (it does not change). Without it, nodes do not recognize the
restored controller.`

func newBackup(a *serve.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Back up the store of a fleet into a file",
		Long: `Back up the store of a fleet into a file, as of one revision; - writes to stdout. An
existing file is replaced once the new one is complete and on disk.` + aboutBackup + `

With --controller a running controller writes the backup, as with 'edgespan backup'; without it, the
store of --data-dir or --etcd is read. The file of a running controller can't be read directly: use
--controller. An etcd can be read at any time.`,
		Example: `  edgespan-controller backup --data-dir /var/lib/edgespan-controller fleet.backup
  edgespan-controller backup --etcd http://10.0.0.1:2379 fleet.backup
  edgespan-controller backup --controller https://127.0.0.1:8443 --token-file admin.token --ca-sha256 H fleet.backup`,
		Args: term.ExactArgs(1, "one FILE, or -"),
	}
	r := bindReach(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := r.resolve(a, cmd); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), backupTimeout)
		defer cancel()
		head, err := backUp(ctx, a, r, args[0])
		if err != nil {
			return err
		}
		a.Printf("%s: %d keys as of revision %d of the store %s", args[0], head.Keys, head.Revision, head.Store)
		return nil
	}
	return cmd
}

// backUp writes a backup of the controller or store that the flags name.
func backUp(ctx context.Context, a *serve.App, r *reach, file string) (head backup.Header, err error) {
	var write func(io.Writer) error
	if r.Controller != "" {
		client, err := r.Client()
		if err != nil {
			return head, err
		}
		defer client.Close()
		write = func(w io.Writer) (err error) {
			head, err = client.Backup(ctx, w)
			return err
		}
	} else {
		s, closing, err := openBackedUp(ctx, r.Options)
		if err != nil {
			return head, err
		}
		defer func() { err = errors.Join(err, closing()) }()
		source, err := backup.Open(backend.NewReader(ctx, s),
			backup.Header{Version: a.Version, Store: s.ID(), Time: time.Now()})
		if err != nil {
			return head, err
		}
		if head = source.Header(); head.Keys == 0 {
			return head, term.WithClass(term.ExitNotFound,
				errors.New("back up: the store is empty: must be the store of a fleet: check --data-dir, or --etcd and --fleet"))
		}
		write = func(w io.Writer) error { return source.Write(backend.NewReader(ctx, s), w) }
	}
	if file == "-" {
		out := bufio.NewWriter(a.Out)
		return head, errors.Join(write(out), out.Flush())
	}
	return head, serve.WriteBackup(file, write)
}

// openBackedUp opens a store for reading. For etcd it does not lock the data folder, so a controller may be running. A
// store file must exist, and no controller may be running on it.
func openBackedUp(ctx context.Context, o *serve.Options) (backend.Store, func() error, error) {
	if len(o.Etcd) > 0 {
		s, err := o.OpenStore(ctx)
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	}
	if _, err := os.Stat(o.StoreFile()); err != nil {
		return nil, nil, term.WithClass(term.ExitNotFound, fmt.Errorf("back up: the store of --data-dir: %w", err))
	}
	dir, err := datadir.Open(string(o.DataDir))
	if errors.Is(err, datadir.ErrLocked) {
		return nil, nil, fmt.Errorf("%w: use --controller URL, or run 'edgespan backup FILE'", err)
	}
	if err != nil {
		return nil, nil, err
	}
	s, err := o.OpenStore(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, dir.Close())
	}
	return s, func() error { return errors.Join(s.Close(), dir.Close()) }, nil
}
