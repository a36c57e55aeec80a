package storage

import (
	"context"

	"edgespan/config/fleet/history"
)

// Prune runs the transactions of a history.Prune. It returns false if a concurrent write interrupted it.
func (a *Access) Prune(ctx context.Context, p history.Prune) (bool, error) {
	at := p.Head()
	for n := range p.Txns() {
		txn, err := p.Txn(n, at)
		if err != nil {
			return false, err
		}
		o, err := a.Commit(ctx, txn)
		if err != nil || !o.Succeeded {
			return false, err
		}
		at = o.Revision
	}
	return true, nil
}
