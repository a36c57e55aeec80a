package node

import (
	"edgespan/actors/node/api"
	"edgespan/netinst"
	"edgespan/pubsub"
)

// takeStatuses makes pub the owner of every adapter status in a network's scope,
// whoever published it, and withdraws those whose config is gone.
func takeStatuses(t *api.Topics, pub *pubsub.Publisher[netinst.AppAdapterStatus], scope string) {
	for _, ref := range pub.TakeAll(scope) {
		if _, wanted := t.AdapterConfig.Get(scope, ref.Key); !wanted {
			must(pub.Unpublish(scope, ref.Key))
		}
	}
}
