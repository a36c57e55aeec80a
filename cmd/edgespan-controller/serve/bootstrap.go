package serve

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"edgespan/cmd/term"
	"edgespan/config/fleet/backup"
	"edgespan/config/fleet/history"
	"edgespan/config/kv"
	"edgespan/platform/datadir"
	"edgespan/platform/pki"
	"edgespan/platform/store/backend"
)

// bootstrap is what all controllers of a fleet share. The first one writes it.
type bootstrap struct {
	CA   string `json:"caSha256"` // pin of the CA that the nodes trust
	Mask string `json:"maskKey"`  // of keyed digests, in hex: replicas compare these digests
}

// foreignFleetError reports a controller whose CA differs from the fleet's: the nodes would not trust it.
type foreignFleetError struct{ why string }

func (e *foreignFleetError) Error() string { return "join the fleet: " + e.why }

func foreignFleet(why string) error {
	return term.WithClass(term.ExitConflict, &foreignFleetError{why})
}

// found opens the CA and joins the fleet of the store, or founds it. It creates no CA if the fleet already has one.
func found(ctx context.Context, s backend.Store, dir *datadir.Dir, ca pki.Options) (*pki.Authority, []byte, error) {
	have, entry, err := readBootstrap(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	if _, err := os.Stat(dir.Path("ca.pem")); entry.Exists() && ca.External == (pki.ExternalCA{}) &&
		errors.Is(err, fs.ErrNotExist) {
		return nil, nil, foreignFleet(fmt.Sprintf("its CA is %s: %s not found: copy it from another controller of the "+
			"fleet, or give --ca-cert and --ca-key",
			have.CA, dir.Path("ca.pem")))
	}
	authority, err := pki.Open(ca)
	if err != nil {
		return nil, nil, err
	}
	if !entry.Exists() {
		mask, err := dir.Mask()
		if err != nil {
			return nil, nil, err
		}
		have = bootstrap{CA: authority.Pin().String(), Mask: hex.EncodeToString(mask)}
		if have, entry, err = writeBootstrap(ctx, s, have, entry); err != nil {
			return nil, nil, err
		}
	}
	if err := have.fits(ctx, s, authority, entry); err != nil {
		return nil, nil, err
	}
	mask, err := hex.DecodeString(have.Mask)
	if err != nil || len(mask) != datadir.MaskKey {
		return nil, nil, fmt.Errorf("join the fleet: the store's key %s: invalid maskKey: must be %d hexadecimal digits",
			history.FleetKey(), hex.EncodedLen(datadir.MaskKey))
	}
	return authority, mask, nil
}

// fits refuses a CA that the fleet's nodes don't trust. A successor of the fleet's CA, which is still among its roots,
// becomes the fleet's CA.
func (f bootstrap) fits(ctx context.Context, s backend.Store, authority *pki.Authority, entry kv.Entry) error {
	pin, err := pki.ParsePin(f.CA)
	switch {
	case err != nil:
		return fmt.Errorf("join the fleet: %w", err)
	case !authority.HasRoot(pin):
		return foreignFleet(fmt.Sprintf("its CA is %s, and this controller's is %s: give the certificate and key of the "+
			"fleet's CA", f.CA, authority.Pin()))
	case authority.Pin() == pin:
		return nil
	}
	f.CA = authority.Pin().String()
	_, _, err = writeBootstrap(ctx, s, f, entry)
	return err
}

func readBootstrap(ctx context.Context, s backend.Store) (bootstrap, kv.Entry, error) {
	entry, _, err := s.Get(ctx, history.FleetKey())
	if err != nil {
		return bootstrap{}, entry, fmt.Errorf("join the fleet: %w", err)
	}
	f, err := parseBootstrap(entry)
	return f, entry, err
}

func parseBootstrap(e kv.Entry) (bootstrap, error) {
	var f bootstrap
	if !e.Exists() {
		return f, nil
	}
	d := json.NewDecoder(bytes.NewReader(e.Value))
	if err := d.Decode(&f); err != nil {
		return f, fmt.Errorf("join the fleet: read the store's key %s: %w", history.FleetKey(), err)
	}
	return f, nil
}

// writeBootstrap replaces the entry over and returns the stored one, which may be another controller's.
func writeBootstrap(ctx context.Context, s backend.Store, f bootstrap, over kv.Entry) (bootstrap, kv.Entry, error) {
	text, err := json.Marshal(f)
	if err != nil {
		return f, over, fmt.Errorf("found the fleet: %w", err)
	}
	o, err := s.Commit(ctx, kv.Txn{
		Compares: []kv.Compare{kv.AtRevision(history.FleetKey(), over.ModRevision), kv.Absent(history.RestoringKey())},
		Then:     []kv.Op{kv.Put(history.FleetKey(), text)},
		Else:     []kv.Op{kv.Get(history.RestoringKey())},
	})
	if err == nil && !o.Succeeded && o.Results[0].Entry.Exists() {
		err = backup.ErrRestoring
	}
	if err != nil {
		return f, over, fmt.Errorf("found the fleet: %w", err)
	}
	return readBootstrap(ctx, s)
}

// checkRestored refuses a store with a running or interrupted restore.
func checkRestored(ctx context.Context, s backend.Store) error {
	entry, _, err := s.Get(ctx, history.RestoringKey())
	if err == nil && entry.Exists() {
		err = backup.ErrRestoring
	}
	if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	return nil
}

// FitsBackup refuses a backup whose fleet has another CA than this controller, or whose format this version can't
// read. Without a CA here, note says what to do.
func (o *Options) FitsBackup(c *backup.Copy, version string) (note string, err error) {
	if _, err := parseStoreForm(c.Value(history.FormatKey()), version); err != nil {
		return "", err
	}
	if c.Fleet() == nil {
		return "", nil
	}
	f, err := parseBootstrap(kv.Entry{ModRevision: 1, Value: c.Fleet()})
	if err != nil {
		return "", err
	}
	pin, err := pki.ParsePin(f.CA)
	if err != nil {
		return "", fmt.Errorf("restore: %w", err)
	}
	authority, err := o.ownCA()
	switch {
	case err != nil:
		return "", err
	case authority == nil:
		return fmt.Sprintf("the fleet's CA is %s: copy its ca.pem to %s before a controller starts", f.CA, o.caFile()), nil
	case !authority.HasRoot(pin):
		return "", foreignFleet(fmt.Sprintf("its CA is %s, and the one in %s is %s: replace it by the fleet's CA, or "+
			"remove it", f.CA,
			o.DataDir, authority.Pin()))
	}
	return "", nil
}

func (o *Options) caFile() string { return filepath.Join(string(o.DataDir), "ca.pem") }

// ownCA returns the CA of the data folder or of --ca-cert, or nil if there is none yet.
func (o *Options) ownCA() (*pki.Authority, error) {
	opts := o.pki([]string{"localhost"}, nil)
	opts.API = pki.Files{} // this certificate is not presented
	if _, err := os.Stat(o.caFile()); opts.External == (pki.ExternalCA{}) && os.IsNotExist(err) {
		return nil, nil
	}
	return pki.Open(opts)
}
