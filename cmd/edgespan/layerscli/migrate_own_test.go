package layerscli

import (
	"reflect"
	"strings"
	"testing"

	"edgespan/config"
	"edgespan/config/layers/migrate"
	"edgespan/config/nodeconf"
)

// A node's own file may hold the keys of its schema and no other, and no migration has ever moved one of
// these: that is why a node migrates no file at its start. A migration that does so needs more than its
// entry in the list: this file, and what the node stored of it, are read by the digest that they had.
func TestNoMigrationMovesWhatANodesOwnFileHolds(t *testing.T) {
	tried := 0
	for _, e := range nodeconf.Schema() {
		path := strings.Split(e.Path, ".")
		for _, value := range []any{"x", int64(1), true, config.Object{"x": "y"}} {
			doc := config.Set(config.Object{}, path, value)
			if got, changes, faults := migrate.Run(migrate.Node, doc, migrate.Range{}); faults != nil || len(changes) > 0 ||
				!reflect.DeepEqual(got, doc) {
				t.Errorf("%s: %v, faults %v", e.Path, changes, faults)
			}
			tried++
		}
	}
	if tried < 100 {
		t.Errorf("%d keys were tried", tried)
	}
}
