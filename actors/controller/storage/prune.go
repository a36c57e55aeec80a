package storage

import (
	"context"

	"edgespan/config/fleet/history"
)

// Prune takes away what a plan of history.Prune says, and says whether nobody wrote meanwhile.
func (d *Access) Prune(ctx context.Context, p history.Prune) (bool, error) {
	at := p.Head()
	for n := range p.Txns() {
		txn, err := p.Txn(n, at)
		if err != nil {
			return false, err
		}
		o, err := d.Commit(ctx, txn)
		if err != nil || !o.Succeeded {
			return false, err
		}
		at = o.Revision
	}
	return true, nil
}
